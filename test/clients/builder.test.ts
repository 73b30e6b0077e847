// Client files, read as bytes where they are plain and by the schema where they are not: what is taken, and all that is wrong with its place.
import * as fc from 'fast-check'
import { hash } from 'node:crypto'
import { afterAll, describe, expect, it } from 'vitest'
import { PlainJson } from '../../src/clients/plain-json.ts'
import { PlainYaml } from '../../src/clients/plain-yaml.ts'
import { readJson } from '../../src/clients/json.ts'
import { Ring } from '../../src/clients/ring.ts'
import { Scratch } from '../../src/clients/scratch.ts'
import { readEntry } from '../../src/config/entries.ts'
import { readYaml } from '../../src/config/document.ts'
import { valueAt } from '../../src/config/tree.ts'
import { buildAll, clientsOf, folderOf, linesOf, planConfigs, plans } from './files.ts'

const { folder, remove } = folderOf('client-files')
afterAll(remove)

const run = (texts: Parameters<typeof buildAll>[1]) => buildAll(folder, texts)
const sha = (text: string): string => hash('sha256', text)
const a = sha('a')
const b = sha('b')

const planNames = Object.keys(plans)
const known = planNames.map((name) => ({ name: Buffer.from(name), isCustom: name !== 'pro' }))

/** What the scanner takes of the text, alone; undefined: it leaves it to the schema. */
function scanned(text: string, Scanner: typeof PlainJson | typeof PlainYaml) {
  const scratch = new Scratch(text.length + 1000, false)
  const bytes = Buffer.from(`${text}\n`)
  const end = Scanner === PlainJson ? bytes.length - 1 : bytes.length
  if (!new Scanner(scratch, known).take(bytes, 0, end, 1)) return undefined
  return [
    ...new Ring(
      scratch.finish(planNames, () => undefined),
      planConfigs,
    ),
  ]
}

/** What the schema takes; undefined: it is wrong. */
function judged(text: string, format: 'json' | 'yaml') {
  const reading = format === 'json' ? readJson(text) : readYaml(`${text}\n`, undefined)
  const entry = format === 'json' ? reading.tree : valueAt(reading.tree, 0)
  if (reading.tree === undefined || reading.faults.length > 0) return undefined
  const { client, problems } = readEntry(entry ?? '', plans)
  if (client === undefined || problems.length > 0) return undefined
  const scratch = new Scratch(text.length + 1000, false)
  scratch.add(client, planNames.indexOf(client.plan), 1)
  return [
    ...new Ring(
      scratch.finish(planNames, () => undefined),
      planConfigs,
    ),
  ]
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

describe('what the scanner takes', () => {
  const cases = [
    { name: 'JSON', format: 'json', textOf: jsonOf, Scanner: PlainJson },
    { name: 'YAML', format: 'yaml', textOf: yamlOf, Scanner: PlainYaml },
  ] as const
  for (const { name, format, textOf, Scanner } of cases)
    it(`is what the schema takes of the same ${name}, and it means the same`, () => {
      let taken = 0
      fc.assert(
        fc.property(group, (drawn) => {
          const text = textOf(drawn)
          const plain = scanned(text, Scanner)
          if (plain === undefined) return
          taken++
          expect(plain).toEqual(judged(text, format))
        }),
        { numRuns: 3_000 },
      )
      // Otherwise it has shown nothing.
      expect(taken).toBeGreaterThan(1_000)
    })

  it('is all that is written without escapes: such lines are not left to the schema', () => {
    const line = { id: 'acme', plan: 'pro', keys: [{ id: 'k', sha256: a, expires: '2027-01-31' }] }
    const custom = { ...line, plan: 'enterprise', limits: { perMinute: 5, perDay: 50 } }
    for (const text of [JSON.stringify(line), JSON.stringify(custom), '{"id":"x","plan":"pro"}'])
      expect(scanned(text, PlainJson), text).toEqual(judged(text, 'json'))
    const yaml = `- id: acme\n  plan: pro\n  keys:\n    - id: k\n      sha256: ${a}\n      expires: 2027-01-31\n    - id: l\n      sha256: ${b}`
    expect(scanned(yaml, PlainYaml)).toEqual(judged(yaml, 'yaml'))
    expect(scanned(yaml, PlainYaml)).toHaveLength(1)
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
        "a.jsonl:5:11 clients[4]: has no "}" here",
        "a.jsonl:6:25 clients[5]: goes on after the end of its value",
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
})
