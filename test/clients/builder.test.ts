// Client files, read as bytes where they are plain and by the schema where they are not: what is taken, and all that is wrong with its place.
import * as fc from 'fast-check'
import { hash } from 'node:crypto'
import { afterAll, describe, expect, it } from 'vitest'
import { PlainJson } from '../../src/clients/plain-json.ts'
import { readPlainItem } from '../../src/clients/plain-yaml.ts'
import { readJson } from '../../src/clients/json.ts'
import { Ring } from '../../src/clients/ring.ts'
import { Scratch } from '../../src/clients/scratch.ts'
import { ClientText } from '../../src/key-files/client-text.ts'
import { readEntry } from '../../src/config/entries.ts'
import { readYaml } from '../../src/config/document.ts'
import { isGroup, isList, valueAt } from '../../src/config/tree.ts'
import { buildAll, clientsOf, folderOf, linesOf, planConfigs, plans } from './files.ts'

const { folder, remove } = folderOf('client-files')
afterAll(remove)

const run = (texts: Parameters<typeof buildAll>[1]) => buildAll(folder, texts)
const sha = (text: string): string => hash('sha256', text)
const a = sha('a')
const b = sha('b')

const planNames = Object.keys(plans)
const clientsIn = (scratch: Scratch) => [
  ...new Ring(
    scratch.finish(planNames, () => undefined),
    planConfigs,
  ),
]

/** What is taken of the bytes alone; undefined: they are left to the schema. */
function scanned(text: string) {
  const scratch = new Scratch(text.length + 1000, false)
  const isTaken = new PlainJson(scratch, plans).take(
    Buffer.from(`${text}\n`),
    0,
    Buffer.byteLength(text),
    1,
  )
  return isTaken ? clientsIn(scratch) : undefined
}

/** What the schema takes; undefined: it is wrong. */
function judged(text: string) {
  const { tree, faults } = readJson(text)
  if (tree === undefined || faults.length > 0) return undefined
  const { client, problems } = readEntry(tree, plans)
  if (client === undefined || problems.length > 0) return undefined
  const scratch = new Scratch(text.length + 1000, false)
  scratch.add(client, planNames.indexOf(client.plan), 1)
  return clientsIn(scratch)
}

const oneOf = (...texts: string[]) => fc.constantFrom(...texts)
/** Mostly what is right, so that whole clients often are; sometimes what is not, or nearly. */
const mostly = <T>(right: fc.Arbitrary<T>, odd: fc.Arbitrary<T>) =>
  fc.oneof({ weight: 20, arbitrary: right }, { weight: 1, arbitrary: odd })
const anId = mostly(
  fc.stringMatching(/^[A-Za-z0-9][A-Za-z0-9_.:@+-]{0,12}$/),
  fc.oneof(
    fc.integer({ min: 125, max: 163 }).map((length) => 'x'.repeat(length)),
    oneOf('constructor', 'toString', 'jwt:a', '-a', '', 'null', '012', 'é', 'a:'),
  ),
)
const aNumber = mostly(
  fc.integer({ min: 1, max: 1200 }).map(String),
  oneOf(
    '0',
    '1000000000',
    '1000000001',
    '1000000000000',
    '1000000000001',
    '01',
    '-1',
    '1e3',
    '2.5',
  ),
)
const noLimits = fc.constant(undefined)
const someLimits = fc.tuple(aNumber, aNumber)
const aPlan = mostly(
  fc.oneof(
    fc.record({ plan: oneOf('pro'), limits: noLimits }),
    fc.record({
      plan: oneOf('enterprise'),
      limits: mostly(
        aNumber.map((number): [string, string] => [number, `${number}0`]),
        someLimits,
      ),
    }),
  ),
  fc.record({
    plan: oneOf('pro', 'enterprise', 'pr', 'prod', 'toString'),
    limits: fc.oneof(noLimits, someLimits),
  }),
)
const aDigest = mostly(
  fc.string().map(sha),
  oneOf(a.toUpperCase(), a.slice(1), `${a}0`, `${a.slice(1)}g`),
)
const aDate = mostly(
  oneOf('2027-06-30', '2024-02-29', '2000-02-29', '1970-01-01', '9999-12-31'),
  oneOf(
    ...'2023-02-29 1900-02-29 1969-12-31 2027-13-01 2027-00-01 2027-01-00'.split(' '),
    ...'2027-04-31 2027-1-1 2027-06-30T12:00:00Z'.split(' '),
  ),
)
const aKey = fc.record({ id: anId, sha256: aDigest, expires: fc.option(aDate) })
const group = fc.record({
  id: anId,
  of: aPlan,
  keys: fc.option(fc.array(aKey, { maxLength: 3 })),
  gap: mostly(oneOf('', ' '), oneOf('  ', '\t')),
  /** Puts a piece of text somewhere, as an error of a person would. */
  slip: mostly(
    fc.constant(undefined),
    fc.tuple(fc.nat(400), oneOf(...'" \\ , : { } [ ] - # x'.split(' '), ' ', '\n', '\r')),
  ),
})
type Drawn = typeof group extends fc.Arbitrary<infer T> ? T : never

const slipped = (text: string, slip: Drawn['slip']): string => {
  if (slip === undefined) return text
  const at = slip[0] % (text.length + 1)
  return text.slice(0, at) + slip[1] + text.slice(at)
}

const jsonOf = ({ id, of: { plan, limits }, keys, gap, slip }: Drawn): string => {
  const q = (text: string) => `"${text}"`
  const fields = [`${gap}"id":${gap}${q(id)}`, `"plan":${q(plan)}${gap}`]
  if (limits) fields.push(`"limits":{"perMinute":${limits[0]},${gap}"perDay":${limits[1]}}`)
  const keyOf = ({ id, sha256, expires }: NonNullable<Drawn['keys']>[number]) =>
    `{"sha256":${q(sha256)},"id":${q(id)}${expires ? `,"expires":${q(expires)}` : ''}${gap}}`
  if (keys) fields.unshift(`"keys":[${gap}${keys.map(keyOf).join(`${gap},`)}]`)
  return slipped(`{${fields.join(',')}}${gap}`, slip).replaceAll('\n', ' ')
}

const yamlOf = ({ id, of: { plan, limits }, keys, gap, slip }: Drawn): string => {
  const lines = [`- id: ${id}`, `${' '.repeat(2)}plan: ${plan}`, `${gap}# ${plan}`]
  if (limits) lines.push(`  limits: { perMinute: ${limits[0]}, perDay: ${limits[1]} }`)
  if (keys && keys.length > 0) lines.push('  keys:')
  for (const { id, sha256, expires } of keys ?? []) {
    lines.push(`  ${gap}- id: ${id}`, `  ${gap}  sha256: ${sha256}`)
    if (expires) lines.push(`  ${gap}  expires: ${expires}`)
  }
  return slipped(lines.join('\n'), slip)
}

/** Nothing would be shown where too little is plain. */
const agreesOn = (
  textOf: (drawn: Drawn) => string,
  plain: (text: string) => unknown,
  exact: (text: string) => unknown,
) => {
  let taken = 0
  fc.assert(
    fc.property(group, (drawn) => {
      const text = textOf(drawn)
      const found = plain(text)
      if (found === undefined) return
      taken++
      expect(found).toEqual(exact(text))
    }),
    { numRuns: 3_000 },
  )
  expect(taken).toBeGreaterThan(500)
}

describe('what is taken in plain form', () => {
  it('is what the schema takes of the same JSON, and means the same', () => {
    agreesOn(jsonOf, scanned, judged)
  })

  it('is what the YAML parser makes of the same item', () => {
    agreesOn(yamlOf, readPlainItem, (text) => {
      const { tree, faults } = readYaml(text, undefined)
      expect(faults).toEqual([])
      return valueAt(tree, 0)
    })
  })

  it('is all that is written without escapes: such clients are not left to others', () => {
    const line = { id: 'acme', plan: 'pro', keys: [{ id: 'k', sha256: a, expires: '2027-01-31' }] }
    const custom = { ...line, plan: 'enterprise', limits: { perMinute: 5, perDay: 50 } }
    const timed = {
      ...line,
      keys: [{ id: 'k', sha256: b, expires: '2027-01-31T10:00:00.5+01:00' }],
    }
    for (const one of [line, custom, timed, { id: 'x', plan: 'pro' }])
      expect(scanned(JSON.stringify(one))).toEqual(judged(JSON.stringify(one)))
    expect(scanned(JSON.stringify(timed))).toHaveLength(1)
    const limits = { perMinute: 5, perDay: 50 }
    const text = ['one', 'two'].reduce(
      (text, id) =>
        new ClientText(text, false).withKey(
          { id: 'acme', plan: 'pro', limits: id === 'one' ? limits : undefined },
          { id, sha256: a, expires: '2027-01-31' },
        ),
      '',
    )
    expect(readPlainItem(`${text.replaceAll('\n', '\r\n')}\n# the next\n`)).toEqual({
      id: 'acme',
      plan: 'pro',
      limits: { perMinute: '5', perDay: '50' },
      keys: ['one', 'two'].map((id) => ({ id, sha256: a, expires: '2027-01-31' })),
    })
  })
})

describe('client files', () => {
  it('are YAML lists, bare or under clients, or JSONL, with the same keys and defaults', () => {
    const key = { id: 'k', sha256: a }
    const yaml = (id: string, n: string) =>
      `- id: ${id}\n  plan: pro\n  keys:\n    - id: ${id}-k\n      sha256: ${sha(n)}\n`
    const built = run({
      'a.jsonl': `${JSON.stringify({ id: 'one', plan: 'pro', keys: [key] })}\r\n\n{"id":"two","plan":"enterprise","limits":{"perMinute":"5","perDay":50}}`,
      'b.yaml': `# ours\n\nclients: # all\n${yaml('three', '3')}\n# the next\n${yaml('four', '4')}`,
      'c.yaml': `  - { id: five, plan: pro }\n  -\n    id: "si\\x78"\n    plan: pro\n`,
      'd.yml': '[{ id: seven, plan: pro }, { id: eight, plan: pro }]\n',
      'e.yaml': '# nobody yet\n',
      'f.jsonl': '',
    })
    expect(linesOf(built)).toEqual([])
    expect(clientsOf(built).map(({ id }) => id)).toEqual(
      'one two three four five six seven eight'.split(' '),
    )
    expect(clientsOf(built)[1]).toEqual({
      id: 'two',
      plan: 'enterprise',
      limits: { perMinute: 5, perDay: 50 },
      concurrent: 8,
      keys: [],
    })
    expect(built.sha256[0]).toMatch(/^[0-9a-f]{64}$/)
  })

  it('tell every fault with its file, line and column, whatever their form', () => {
    const ok = `{"id":"ok","plan":"pro","keys":[{"id":"k","sha256":"${a}"}]}`
    const built = run({
      'a.jsonl': [
        ok,
        '{"id":"a b","plan":"nope"}',
        '{"id":"x","id":"y","plan":"enterprise"}',
        'id: x',
        '{"id":"x" "plan":"pro"}',
        '{"id":"x","plan":"pro"} {}',
        '{"id":"x","plan":"pro","limits":{"perMinute":1,"perDay":2}}',
        '{"id":"z","plan":"enterprise","limits":{"perMinute":9,"perDay":2},"colour":"red"}',
        `{"id":"w","plan":"pro","keys":[{"id":"jwt:w","sha256":"secret","expires":"tomorrow"}]}`,
        '[1]',
      ].join('\n'),
      'b.yaml':
        'clients:\n  - id: q\n    plan: pro\n    plam: pro\n  - id: r\n    keys: [{ id: r-1 }]\n',
      'c.yaml': '{ clients: [{ id: s, plan: none }], other: 1 }\n',
      'd.yaml': '- id: &x t\n  plan: *x\n- id: [\n- id: u\n  plan: pro\n',
      'e.jsonl': Buffer.from([0x7b, 0xff, 0x7d]),
      'f.yaml': 'clients: 5\n',
    })
    expect(built.ring).toBeUndefined()
    expect(linesOf(built).map((line) => line.replace(/; .*/, ''))).toMatchInlineSnapshot(`
      [
        "a.jsonl:2:7 clients[1].id: "a b" is not an id",
        "a.jsonl:2:20 clients[1].plan: "nope" is not a defined plan",
        "a.jsonl:3:11 clients[2].id: is written twice",
        "a.jsonl:3:1 clients[2].limits: is missing",
        "a.jsonl:4:1 clients[3]: is not JSON",
        "a.jsonl:5:11 clients[4]: is not JSON",
        "a.jsonl:6:25 clients[5]: is not JSON",
        "a.jsonl:7:24 clients[6].limits: is for custom plans only",
        "a.jsonl:8:67 clients[7].colour: is not a known key",
        "a.jsonl:8:64 clients[7].limits.perDay: "2" is below perMinute",
        "a.jsonl:9:38 clients[8].keys[0].id: "jwt:w" starts with "jwt:", which names callers with tokens",
        "a.jsonl:9:55 clients[8].keys[0].sha256: is not a SHA-256 digest",
        "a.jsonl:9:74 clients[8].keys[0].expires: "tomorrow" is not a date",
        "a.jsonl:10:1 clients[9]: is not a group of keys",
        "b.yaml:4:5 clients[0].plam: is not a known key",
        "b.yaml:5:5 clients[1].plan: is missing",
        "b.yaml:6:12 clients[1].keys[0].sha256: is missing",
        "c.yaml:1:37 (file): is not a known key",
        "c.yaml:1:28 clients[0].plan: "none" is not a defined plan",
        "d.yaml:2:9 clients[0].plan: is an alias",
        "d.yaml:4:1 clients[1]: is not YAML (Flow sequence in block collection must be sufficiently indented and end with a ])",
        "e.jsonl:1:1 (file): is not UTF-8 text",
        "f.yaml:1:10 (file): is not a list",
      ]
    `)
  })

  it('tell ids and digests that stand twice with both places, over all files and the configuration', () => {
    const key = (id: string, digest: string) => ({ id, sha256: sha(digest) })
    const line = (id: string, ...keys: object[]) => JSON.stringify({ id, plan: 'pro', keys })
    const own = [
      { id: 'own', plan: 'pro', keys: [{ ...key('own-1', 'own'), expiresAtMs: undefined }] },
    ]
    const texts = {
      'a.jsonl': `${line('one', key('k1', '1'), key('k2', '2'))}\n${line('own', key('k1', '3'))}\n`,
      'b.yaml': `- id: one\n  plan: pro\n  keys:\n    - id: own-1\n      sha256: ${sha('4')}\n    - id: k5\n      sha256: ${sha('own')}\n`,
      'c.yaml': `[{ id: x, plan: pro }, { id: x, plan: pro, keys: [{ id: k2, sha256: ${sha('2').toUpperCase()} }] }]`,
    }
    expect(linesOf(buildAll(folder, texts, own)).toSorted()).toEqual([
      'a.jsonl:2:40 clients[1].keys[0].id: "k1" is the same id as a.jsonl:1; give each its own',
      'a.jsonl:2:7 clients[1].id: "own" is the same id as clients[0]; give each its own',
      'b.yaml:1:7 clients[0].id: "one" is the same id as a.jsonl:1; give each its own',
      'b.yaml:4:11 clients[0].keys[0].id: "own-1" is the same id as clients[0]; give each its own',
      'b.yaml:7:15 clients[0].keys[1].sha256: is the same digest as clients[0]; one key belongs to one client, once',
      'c.yaml:1:30 clients[1].id: "x" is the same id as c.yaml:1; give each its own',
      'c.yaml:1:57 clients[1].keys[0].id: "k2" is the same id as a.jsonl:1; give each its own',
      'c.yaml:1:69 clients[1].keys[0].sha256: is the same digest as a.jsonl:1; one key belongs to one client, once',
    ])
  })

  it('tell 100 faults and the number of the rest, and name keys that are over', () => {
    const many = run({ 'a.jsonl': '{"id":"x"}\n'.repeat(10_300) })
    expect([many.faults.length, many.untold]).toEqual([100, 10_200])
    const over = { id: 'o', plan: 'pro', keys: [{ id: 'k', sha256: a, expires: '2020-01-01' }] }
    const { warnings } = run({ 'a.jsonl': `\n${JSON.stringify(over)}\n` })
    expect(linesOf({ faults: warnings })).toEqual([
      `a.jsonl:2:128 clients[0].keys[0].expires: "2020-01-01" is over, so this key is refused; remove it, or make one with \`tollgate keys new\``,
    ])
  })

  it('in YAML are cut into the same clients, or faults, that the whole document has', () => {
    const aScalar = oneOf(
      'a',
      'b:c',
      '"q"',
      "'s'",
      '"two\n      lines"',
      '|\n      - id: x\n      y',
      '~',
      '&a v',
      '*a',
    )
    const aLine = fc.oneof(
      fc
        .record({ id: anId, at: oneOf('  ', '  ', '  ', '   ', '') })
        .map(({ id, at }) => `${at}- id: ${id}\n${at}  plan: pro`),
      fc
        .record({ key: oneOf('plan', 'x', 'limits'), aScalar })
        .map(({ key, aScalar }) => `    ${key}: ${aScalar}`),
      oneOf(
        '# c',
        '',
        '  # c',
        '    # - id: c',
        '  -',
        '  - { id: f, plan: pro }',
        '  - { id: g,\n    plan: pro }',
        '  - []',
        '\t',
        '---',
        '...',
        '    -',
        'x: 1',
      ),
    )
    const aFile = fc.record({
      head: oneOf('clients:\n', '', '# all\n', 'clients: # all\n\n', '---\n'),
      lines: fc.array(aLine, { maxLength: 6 }),
      end: oneOf('', '\n'),
    })
    let cut = 0
    fc.assert(
      fc.property(aFile, ({ head, lines, end }) => {
        const text = `${head}${lines.join('\n')}${end}`
        const built = run({ 'cut.yaml': text })
        const { tree = 'broken', faults } = readYaml(text, undefined)
        const list = isGroup(tree) && Object.keys(tree).length === 1 ? tree.clients : tree
        const judged = (isList(list) ? list : []).map((entry) => readEntry(entry, plans))
        const isSound = faults.length === 0 && judged.every(({ problems }) => problems.length === 0)
        const ids = judged.map(({ client }) => client?.id)
        if (built.ring === undefined)
          expect(isSound && isList(list) && new Set(ids).size === ids.length, text).toBe(false)
        else {
          cut++
          expect([isSound, ids], text).toEqual([true, clientsOf(built).map(({ id }) => id)])
        }
      }),
      { numRuns: 1_000 },
    )
    expect(cut).toBeGreaterThan(50)
  })

  it('may be longer than the pieces they are read in', () => {
    const keys = (id: string) =>
      Array.from({ length: 1_200 }, (_, n) => ({ id: `${id}-${n}`, sha256: sha(`${id}-${n}`) }))
    const ids = Array.from({ length: 12 }, (_, n) => `client-${n}`)
    const lines = ids.map((id) => JSON.stringify({ id, plan: 'pro', keys: keys(id) }))
    const items = ids.map(
      (id) =>
        `- id: y-${id}\n  plan: pro\n  keys:\n${keys(`y-${id}`)
          .map(({ id, sha256 }) => `    - id: ${id}\n      sha256: ${sha256}\n`)
          .join('')}`,
    )
    const built = run({ 'a.jsonl': lines.join('\n'), 'b.yaml': items.join('') })
    expect(linesOf(built)).toEqual([])
    expect(built.ring?.counts).toMatchObject({ clients: 24, keys: 24 * 1_200 })
    expect(clientsOf(built).map(({ id }) => id)).toEqual([...ids, ...ids.map((id) => `y-${id}`)])
  })
})
