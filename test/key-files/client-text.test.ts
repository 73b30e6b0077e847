import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ClientText, KeysRefused } from '../../src/key-files/client-text.ts'
import { readYaml } from '../../src/config/document.ts'
import { isList, listAt, type Tree } from '../../src/config/tree.ts'

const digest = (digit: string) => digit.repeat(64)
const entry = { id: 'acme-new', sha256: digest('f') }
const wish = (id: string, plan?: string) => ({ id, plan, limits: undefined })
const added = (text: string, isLines = false) =>
  new ClientText(text, isLines).withKey(wish('acme'), entry)

/** The clients of a text as values, whichever its form. */
const clientsOf = (text: string, isLines: boolean): readonly Tree[] => {
  const read = (part: string): Tree => {
    const { tree = '', faults } = readYaml(part, undefined)
    expect(faults, part).toEqual([])
    return tree
  }
  if (isLines)
    return text
      .split(/\r?\n/)
      .filter((line) => line.trim() !== '')
      .map(read)
  const tree = read(text)
  return isList(tree) ? tree : listAt(tree, 'clients')
}

describe('a key more, in the text that is there', () => {
  const key = `{ id: acme-new, sha256: ${digest('f')} }`
  it.each([
    [
      'below the last of a block, with its comment and what stands behind',
      `- id: acme # the first\n  keys:\n    - id: a # old\n      sha256: b # its digest\n    # the end\n\n- id: bolt\n`,
      `- id: acme # the first\n  keys:\n    - id: a # old\n      sha256: b # its digest\n    - id: acme-new\n      sha256: ${digest('f')}\n    # the end\n\n- id: bolt\n`,
    ],
    [
      'in braces, where its neighbour is',
      'clients:\n  - id: acme\n    keys:\n    - {id: a}\n',
      `clients:\n  - id: acme\n    keys:\n    - {id: a}\n    - ${key.replaceAll(/ (?=})|(?<={) /g, '')}\n`,
    ],
    [
      'in brackets',
      '- { id: acme, keys: [{ id: a }] }\n',
      `- { id: acme, keys: [{ id: a }, ${key}] }\n`,
    ],
    [
      'in brackets with a comma at the end',
      '- { id: acme, keys: [ { id: a }, ] }',
      `- { id: acme, keys: [ { id: a }, ${key}, ] }`,
    ],
    ['in empty brackets', '- { id: acme, keys: [] }', `- { id: acme, keys: [${key}] }`],
    [
      'where there is no list',
      '- { id: acme, plan: pro }',
      `- { id: acme, plan: pro, keys: [${key}] }`,
    ],
    [
      'where there is none yet',
      '- id: acme\n  keys: [] # none\n',
      `- id: acme\n  keys: # none\n    - id: acme-new\n      sha256: ${digest('f')}\n`,
    ],
    [
      'as JSON',
      '[{"id": "acme", "keys": [{"id": "a"}]}]',
      `[{"id": "acme", "keys": [{"id": "a"}, {"id": "acme-new", "sha256": "${digest('f')}"}]}]`,
    ],
    [
      'with the line breaks of the file, and none at its end',
      '- id: acme\r\n  keys:\r\n  - id: a',
      `- id: acme\r\n  keys:\r\n  - id: a\r\n  - id: acme-new\r\n    sha256: ${digest('f')}`,
    ],
    [
      'behind a byte order mark',
      '\uFEFFclients:\n- id: acme\n  keys:\n  - id: a\n',
      `\uFEFFclients:\n- id: acme\n  keys:\n  - id: a\n  - id: acme-new\n    sha256: ${digest('f')}\n`,
    ],
  ])('goes %s', (_, text, expected) => {
    expect(added(text)).toBe(expected)
  })
})

describe('a key less', () => {
  it.each([
    [
      'with the comments on its lines, and no others',
      '- id: acme\n  keys: # of acme\n    # first\n    - id: a # one\n      # two\n      sha256: b # three\n    # last\n    - id: c\n',
      '- id: acme\n  keys: # of acme\n    # first\n    # last\n    - id: c\n',
    ],
    [
      'that was the only one',
      '- id: acme\n  keys: # of acme\n    - id: a\n  plan: pro\n',
      '- id: acme\n  keys: [] # of acme\n  plan: pro\n',
    ],
    [
      'in brackets, the only one',
      '- { id: acme, keys: [ { id: a }, ] }',
      '- { id: acme, keys: [  ] }',
    ],
    [
      'in brackets, the first',
      '[{"id":"acme","keys":[{"id":"a"},{"id":"b"}]}]',
      '[{"id":"acme","keys":[{"id":"b"}]}]',
    ],
    [
      'in brackets, below what is said of its neighbour',
      '- id: acme\n  keys: [\n    { id: b }, # stays\n    { id: a }\n  ]\n',
      '- id: acme\n  keys: [\n    { id: b } # stays\n    \n  ]\n',
    ],
    [
      'in the middle',
      '- id: acme\n  keys: [{ id: b }, { id: a }, { id: c }]\n',
      '- id: acme\n  keys: [{ id: b }, { id: c }]\n',
    ],
  ])('goes %s', (_, text, expected) => {
    expect(new ClientText(text, false).without('a')).toBe(expected)
  })
})

describe('a key that another one takes the place of', () => {
  const rotated = (keys: string) =>
    new ClientText(`- id: acme\n  keys: [${keys}]\n`, false)
      .rotated('a', () => entry, '2030-01-02T00:00:00.000Z')
      .replace(/^.*keys: \[|, \{ id: acme-new.*\n$/gs, '')

  it.each([
    ['an end', '{ id: a }', '{ id: a, expires: 2030-01-02T00:00:00.000Z }'],
    [
      'an earlier end, as it is quoted',
      "{ id: a, expires: '2031-01-01' }",
      "{ id: a, expires: '2030-01-02T00:00:00.000Z' }",
    ],
    [
      'no later end than it has',
      '{ id: a, expires: 2030-01-01 }',
      '{ id: a, expires: 2030-01-01 }',
    ],
  ])('is given %s', (_, before, after) => {
    expect(rotated(before)).toBe(after)
  })
})

describe('a client more', () => {
  it.each([
    [
      'a list',
      false,
      '- id: bolt\n',
      `- id: bolt\n- id: acme\n  plan: pro\n  keys:\n    - id: acme-new\n      sha256: ${digest('f')}\n`,
    ],
    [
      'a configuration',
      false,
      'clients: []\nplans: {}\n',
      `clients:\n  - id: acme\n    plan: pro\n    keys:\n      - id: acme-new\n        sha256: ${digest('f')}\nplans: {}\n`,
    ],
    [
      'a configuration without clients',
      false,
      'plans: {}',
      `plans: {}\nclients:\n  - id: acme\n    plan: pro\n    keys:\n      - id: acme-new\n        sha256: ${digest('f')}`,
    ],
    [
      'an empty file',
      false,
      '# clients\n',
      `# clients\n- id: acme\n  plan: pro\n  keys:\n    - id: acme-new\n      sha256: ${digest('f')}\n`,
    ],
    [
      'JSON lines',
      true,
      '{"id":"bolt"}',
      `{"id":"bolt"}\n{"id":"acme","plan":"pro","keys":[{"id":"acme-new","sha256":"${digest('f')}"}]}\n`,
    ],
  ])('goes into %s', (_, isLines, text, expected) => {
    expect(new ClientText(text, isLines).withKey(wish('acme', 'pro'), entry)).toBe(expected)
  })

  it.each([
    ['has no plan', wish('coro'), /--plan$/],
    ['is on another plan', wish('acme', 'free'), /^acme is on plan pro; leave --plan out/],
    [
      'is given other limits',
      { ...wish('acme'), limits: { perMinute: 1, perDay: 1 } },
      /change them there$/,
    ],
  ])('is refused where it %s', (_, asked, message) => {
    const text = new ClientText('{"id":"acme","plan":"pro"}\n', true)
    expect(() => text.withKey(asked, entry)).toThrow(KeysRefused)
    expect(() => text.withKey(asked, entry)).toThrow(message)
    expect(() => text.without('acme')).toThrow('has no key acme;')
  })
})

type Form = 'block' | 'braces' | 'json' | 'lines'

/** A file of clients, each with its keys, written in any of the ways there are. */
const files = fc
  .record({
    form: fc.constantFrom<Form>('block', 'braces', 'json', 'lines'),
    keys: fc.array(fc.nat(3), { minLength: 1, maxLength: 4 }),
    lineBreak: fc.constantFrom('\n', '\r\n'),
    indent: fc.constantFrom('', '  ', '    '),
    quote: fc.constantFrom('', '"', "'"),
    comment: fc.constantFrom('', ' # a, [b] {c}: "d"'),
    root: fc.constantFrom('', 'clients:', 'unmatched: reject\nclients:'),
    endsOpen: fc.boolean(),
  })
  .map(({ form, keys, lineBreak, indent, quote, comment, root, endsOpen }) => {
    const key = (client: number, at: number) => `k${client}-${at}`
    const clients = keys.map((count, client) => {
      const list = Array.from({ length: count }, (_, at) => ({
        id: key(client, at),
        sha256: digest('a'),
      }))
      if (form === 'json' || form === 'lines')
        return JSON.stringify({ id: `c${client}`, keys: list })
      const braces = list.map(
        ({ id, sha256 }) => `{ id: ${quote}${id}${quote}, sha256: ${sha256} }`,
      )
      if (form === 'braces') return `{ id: c${client}, keys: [${braces.join(', ')}] }${comment}`
      const lines = list.map(({ id, sha256 }) =>
        [
          `${indent}- id: ${quote}${id}${quote}${comment}`,
          `${indent}  sha256: ${sha256}`,
          `${indent}${comment}`,
        ].join('\n  '),
      )
      return [
        `id: c${client}${comment}`,
        count === 0 ? 'keys: []' : `keys:${comment}`,
        ...lines,
      ].join('\n  ')
    })
    const isLines = form === 'lines'
    const items = clients.map((client) => client.replaceAll('\n', `\n${indent}`))
    const text = isLines
      ? clients.join('\n')
      : [root, ...items.map((item) => `${indent}- ${item}`)]
          .filter((part) => part !== '')
          .join(`${comment}\n`)
    return { isLines, text: (text + (endsOpen ? '' : '\n')).replaceAll('\n', lineBreak), keys }
  })

/** Whether all of the one stands in the other, in its order. */
const isWithin = (text: string, other: string): boolean => {
  let at = 0
  for (const char of other) if (char === text[at]) at++
  return at === text.length
}

describe('any file of clients', () => {
  it('is the same byte for byte after a key has come and gone, and keeps every byte meanwhile', () => {
    fc.assert(
      fc.property(files, fc.nat(), ({ text, isLines, keys }, choice) => {
        const at = choice % keys.length
        const before = clientsOf(text, isLines)
        const next = new ClientText(text, isLines).withKey(wish(`c${at}`), entry)
        const after = clientsOf(next, isLines)
        expect(JSON.stringify(after)).toBe(
          JSON.stringify(
            before.map((client, index) =>
              index === at
                ? { ...(client as object), keys: [...listAt(client, 'keys'), entry] }
                : client,
            ),
          ),
        )
        // An empty list in a block becomes lines.
        const emptied = new RegExp(`(- id: c${at}\\b[^]*?keys:) \\[\\]`)
        expect(isWithin(keys[at] === 0 ? text.replace(emptied, '$1') : text, next)).toBe(true)
        expect(new ClientText(next, isLines).without(entry.id)).toBe(text)
      }),
      { numRuns: 500 },
    )
  })

  it('has any of its keys taken out, and nothing else', () => {
    fc.assert(
      fc.property(files, fc.nat(), fc.nat(), ({ text, isLines, keys }, choice, keyChoice) => {
        const at = choice % keys.length
        const count = keys[at] ?? 0
        fc.pre(count > 0)
        const index = keyChoice % count
        const next = new ClientText(text, isLines).without(`k${at}-${index}`)
        expect(JSON.stringify(clientsOf(next, isLines))).toBe(
          JSON.stringify(
            clientsOf(text, isLines).map((client, of) =>
              of === at
                ? { ...(client as object), keys: listAt(client, 'keys').toSpliced(index, 1) }
                : client,
            ),
          ),
        )
      }),
      { numRuns: 300 },
    )
  })
})
