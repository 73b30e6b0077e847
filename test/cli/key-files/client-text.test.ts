import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ClientText } from '../../../src/cli/key-files/client-text.ts'
import { readYaml } from '../../../src/config/document.ts'
import { isList, listAt, type Tree } from '../../../src/config/tree.ts'

const digest = (digit: string) => digit.repeat(64)
const entry = { id: 'acme-new', sha256: digest('f') }
const clientText = (text: string, isLines = false) =>
  new ClientText(isLines ? 'c.jsonl' : 'c.yaml', text)
const wish = (id: string, plan?: string) => ({ id, plan, limits: undefined })

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

/** Of a text in which «this» comes and ‹that› goes; all else stays as it is. */
const without = (marks: RegExp, text: string) =>
  text.replaceAll(marks, '').replaceAll(/[«»‹›]/g, '')
const before = (text: string) => without(/«[^»]*»/g, text)
const after = (text: string) => without(/‹[^›]*›/g, text)

const F = digest('f')
const key = `{ id: acme-new, sha256: ${F} }`
const item = (indent: string) => `${indent}- id: acme-new\n${indent}  sha256: ${F}\n`
const client = (indent: string) =>
  `${indent}- id: acme\n${indent}  plan: pro\n${indent}  keys:\n${item(`${indent}    `)}`

describe('a key more, in the text that is there', () => {
  it.each([
    [
      'below the last of a block, with its comment and what stands behind',
      `- id: acme # the first\n  keys:\n    - id: a # old\n      sha256: b # its digest\n` +
        `«${item('    ')}»    # the end\n\n- id: bolt\n`,
    ],
    [
      'in braces, where its neighbour is',
      `clients:\n  - id: acme\n    keys:\n    - {id: a}\n«    - ${key}\n»`,
    ],
    ['in brackets', `- { id: acme, keys: [{ id: a }«, ${key}»] }\n`],
    ['in brackets with a comma at the end', `- { id: acme, keys: [ { id: a }«, ${key}», ] }`],
    ['where there is no list', `- { id: acme, plan: pro«, keys: [ ${key} ]» }`],
    ['where there is none yet', `- id: acme\n  keys:‹ []› # none\n«${item('    ')}»`],
    ['behind a byte order mark', `\uFEFFclients:\n- id: acme\n  keys:\n  - id: a\n«${item('  ')}»`],
  ])('goes %s', (_, text) => {
    const next = clientText(before(text)).withKey(wish('acme'), entry)
    expect(next).toBe(after(text))
  })
})

describe('a key less', () => {
  it.each([
    [
      'with the comments on its lines, and no others',
      '- id: acme\n  keys: # of acme\n    # first\n‹    - id: a # one\n      # two\n' +
        '      sha256: b # three\n›    # last\n    - id: c\n',
    ],
    ['that was the only one', '- id: acme\n  keys:« []» # of acme\n‹    - id: a\n›  plan: pro\n'],
    ['in brackets, the only one', '- { id: acme, keys: [ ‹{ id: a },› ] }'],
    [
      'in brackets, below what is said of its neighbour',
      '- id: acme\n  keys: [\n    { id: b }‹,› # stays\n    ‹{ id: a }›\n  ]\n',
    ],
  ])('goes %s', (_, text) => {
    expect(clientText(before(text)).without('a')).toBe(after(text))
  })
})

describe('a key that another one takes the place of', () => {
  const rotated = (keys: string) =>
    clientText(`- id: acme\n  keys: [${keys}]\n`)
      .rotated('a', () => entry, '2030-01-02T00:00:00.000Z')
      .replace(/^.*keys: \[|, \{ id: acme-new.*\n$/gs, '')

  it.each([
    ['an end', '{ id: a«, expires: 2030-01-02T00:00:00.000Z» }'],
    [
      'an earlier end, as it is quoted',
      "{ id: a, expires: '‹2031-01-01›«2030-01-02T00:00:00.000Z»' }",
    ],
    ['no later end than it has', '{ id: a, expires: 2030-01-01 }'],
  ])('is given %s', (_, text) => {
    expect(rotated(before(text))).toBe(after(text))
  })
})

describe('a client more', () => {
  it.each([
    ['a list', `- id: bolt\n«${client('')}»`],
    ['a configuration', `clients:‹ []›\n«${client('  ')}»plans: {}\n`],
    ['a configuration without clients', `plans: {}«\nclients:\n${client('  ').trimEnd()}»`],
    ['an empty file', `# clients\n«${client('')}»`],
    [
      'JSON lines',
      `{"id":"bolt"}«\n{"id":"acme","plan":"pro","keys":[{"id":"acme-new","sha256":"${F}"}]}\n»`,
    ],
  ])('goes into %s', (name, text) => {
    const client = clientText(before(text), name === 'JSON lines')
    expect(client.withKey(wish('acme', 'pro'), entry)).toBe(after(text))
  })

  const limits = { perMinute: 1, perDay: 1 }
  it.each([
    ['has no plan', wish('coro'), /--plan$/],
    [
      'is on another plan',
      wish('acme', 'free'),
      /^c\.jsonl: acme is on plan pro; leave --plan out/,
    ],
    ['is given other limits', { ...wish('acme'), limits }, /change them there$/],
  ])('is refused where it %s', (_, asked, message) => {
    const text = clientText('{"id":"acme","plan":"pro"}\n', true)
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
    const clients = keys.map((count, client) => {
      const ids = Array.from({ length: count }, (_, at) => `k${client}-${at}`)
      if (form === 'json' || form === 'lines')
        return JSON.stringify({
          id: `c${client}`,
          keys: ids.map((id) => ({ id, sha256: digest('a') })),
        })
      const braces = ids.map((id) => `{ id: ${quote}${id}${quote}, sha256: ${digest('a')} }`)
      if (form === 'braces') return `{ id: c${client}, keys: [${braces.join(', ')}] }${comment}`
      const lines = ids.flatMap((id) => [
        `${indent}- id: ${quote}${id}${quote}${comment}`,
        `${indent}  sha256: ${digest('a')}`,
        `${indent}${comment}`,
      ])
      const list = count === 0 ? 'keys: []' : `keys:${comment}`
      return [`id: c${client}${comment}`, list, ...lines].join('\n  ')
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
        const next = clientText(text, isLines).withKey(wish(`c${at}`), entry)
        const expected = clientsOf(text, isLines).map((client, index) =>
          index === at
            ? { ...(client as object), keys: [...listAt(client, 'keys'), entry] }
            : client,
        )
        expect(JSON.stringify(clientsOf(next, isLines))).toBe(JSON.stringify(expected))
        // An empty list in a block becomes lines.
        const emptied = new RegExp(`(- id: c${at}\\b[^]*?keys:) \\[\\]`)
        expect(isWithin(keys[at] === 0 ? text.replace(emptied, '$1') : text, next)).toBe(true)
        expect(clientText(next, isLines).without(entry.id)).toBe(text)
      }),
      { numRuns: 200 },
    )
  })

  it('has any of its keys taken out, and nothing else', () => {
    fc.assert(
      fc.property(files, fc.nat(), fc.nat(), ({ text, isLines, keys }, choice, keyChoice) => {
        const at = choice % keys.length
        const count = keys[at] ?? 0
        fc.pre(count > 0)
        const index = keyChoice % count
        const next = clientText(text, isLines).without(`k${at}-${index}`)
        const expected = clientsOf(text, isLines).map((client, of) =>
          of === at
            ? { ...(client as object), keys: listAt(client, 'keys').toSpliced(index, 1) }
            : client,
        )
        expect(JSON.stringify(clientsOf(next, isLines))).toBe(JSON.stringify(expected))
      }),
      { numRuns: 150 },
    )
  })
})
