// Client files, read at once where they are plain and by the schema where they are not: what is taken, and all that is wrong with its place.
import * as fc from 'fast-check'
import { hash } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { parsePlainItem } from '../../../src/config/clients/plain-clients.ts'
import { ClientText } from '../../../src/cli/key-files/client-text.ts'
import { readEntry } from '../../../src/config/parse.ts'
import { readYaml } from '../../../src/config/document.ts'
import { isGroup, isList } from '../../../src/config/tree.ts'
import { temporaryFolder } from '../../support/processes.ts'
import { words } from '../../support/words.ts'
import { buildAll, clientsOf, linesOf, plans } from './files.ts'
import { anId, jsonAgrees, judged, oneOf, scanned, yamlAgrees } from './plain-form.ts'

const folder = temporaryFolder()

const run = (texts: Parameters<typeof buildAll>[1]) => buildAll(folder, texts)
const sha = (text: string): string => hash('sha256', text)
const a = sha('a')
const b = sha('b')

describe('what is taken in plain form', () => {
  const how = { numRuns: 500, seed: 1 }
  it('is what the schema takes of the same JSON, and means the same', () => jsonAgrees(how))
  it('is what the YAML parser makes of the same item', () => yamlAgrees(how))

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
        new ClientText('a.yaml', text).withKey(
          { id: 'acme', plan: 'pro', limits: id === 'one' ? limits : undefined },
          { id, sha256: a, expires: '2027-01-31' },
        ),
      '',
    )
    expect(parsePlainItem(`${text.replaceAll('\n', '\r\n')}\n# the next\n`)).toEqual({
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
    const ids = words('one two three four five six seven eight')
    expect(clientsOf(built).map(({ id }) => id)).toEqual(ids)
    const limits = { perMinute: 5, perDay: 50 }
    const two = { id: 'two', plan: 'enterprise', limits, concurrent: 8, keys: [] }
    expect(clientsOf(built)[1]).toEqual(two)
    expect(built.sha256[1]).toMatch(/^[0-9a-f]{64}$/)
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
        '[1]',
      ].join('\n'),
      'b.yaml':
        'clients:\n  - id: q\n    plan: pro\n    plam: pro\n  - id: r\n    keys: [{ id: r-1 }]\n',
      'c.yaml': '{ clients: [{ id: s, plan: none }], other: 1 }\n',
      'd.yaml': '- id: &x t\n  plan: *x\n- id: [\n- id: u\n  plan: pro\n',
      'e.jsonl': Buffer.from([0x7b, 0xff, 0x7d]),
      'f.yaml': 'clients: 5\n',
    })
    expect(built.table).toBeUndefined()
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
        "a.jsonl:9:1 clients[8]: is not a group of keys",
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
    const own = JSON.stringify({
      clients: [{ id: 'own', plan: 'pro', keys: [key('own-1', 'own')] }],
    })
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

  it('tell 100 faults, and name keys that are over', () => {
    const many = run({ 'a.jsonl': '{"id":"x"}\n'.repeat(1_300) })
    expect(many.faults).toHaveLength(100)
    const over = { id: 'o', plan: 'pro', keys: [{ id: 'k', sha256: a, expires: '2020-01-01' }] }
    const { warnings } = run({ 'a.jsonl': `\n${JSON.stringify(over)}\n` })
    expect(linesOf({ faults: warnings })).toEqual([
      `a.jsonl:2:128 clients[0].keys[0].expires: "2020-01-01" is over, so this key is refused; remove it, or make one with \`tollgate keys new\``,
    ])
  })

  it('in YAML are cut into the same clients, or faults, that the whole document has', () => {
    const block = '|\n      - id: x\n      y'
    const aScalar = oneOf(...words('a b:c "q" \'s\' ~ *a'), '"two\n      lines"', block, '&a v')
    const aLine = fc.oneof(
      fc
        .record({ id: anId, at: oneOf('  ', '  ', '  ', '   ', '') })
        .map(({ id, at }) => `${at}- id: ${id}\n${at}  plan: pro`),
      fc
        .record({ key: oneOf('plan', 'x', 'limits'), aScalar })
        .map(({ key, aScalar }) => `    ${key}: ${aScalar}`),
      oneOf('# c', '', '  # c', '    # - id: c', '  -', '\t', '---', '...', '    -', 'x: 1'),
      oneOf('  - { id: f, plan: pro }', '  - { id: g,\n    plan: pro }', '  - []'),
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
        if (built.table === undefined)
          expect(isSound && isList(list) && new Set(ids).size === ids.length, text).toBe(false)
        else {
          cut++
          expect([isSound, ids], text).toEqual([true, clientsOf(built).map(({ id }) => id)])
        }
      }),
      { numRuns: 300, seed: 1 },
    )
    expect(cut).toBeGreaterThan(20)
  })

  it('may be longer than the pieces they are read in', () => {
    const keys = (id: string) =>
      Array.from({ length: 1_000 }, (_, n) => ({ id: `${id}-${n}`, sha256: sha(`${id}-${n}`) }))
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
    expect(built.table?.counts).toMatchObject({ clients: 24, keys: 24 * 1_000 })
    expect(clientsOf(built).map(({ id }) => id)).toEqual([...ids, ...ids.map((id) => `y-${id}`)])
  })
})
