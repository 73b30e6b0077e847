import { stripVTControlCharacters } from 'node:util'
import { describe, expect, it } from 'vitest'
import { lookOf, safe } from '../../../src/cli/terminal/look.ts'
import { table } from '../../../src/cli/terminal/table.ts'
import { id, note, number, text } from '../../../src/tools/columns.ts'
import { count } from '../../../src/insight/format.js'
import { all } from '../../support/all.ts'

interface Row {
  readonly key: string
  readonly plan: string
  readonly used: number | null
  readonly reason: string
}

const rows: Row[] = [
  { key: 'acme-2', plan: 'pro', used: 9204, reason: '20 strikes in 41 s' },
  { key: 'a-key-with-a-very-long-id', plan: 'free', used: null, reason: 'x'.repeat(60) },
]
const columns = [
  id('KEY', ({ key }: Row) => key),
  text('PLAN', ({ plan }: Row) => plan, { drop: 2 }),
  number('USED', ({ used }: Row) => used, {
    write: count,
    drop: 1,
    colour: ({ used }) => (used === null ? undefined : 'red'),
  }),
  text('REASON', ({ reason }: Row) => reason),
  note('', ({ used }: Row) => (used === null ? '' : 'so far')),
]
const linesAt = (width: number | undefined, shown: Iterable<Row> = rows, env = { NO_COLOR: '1' }) =>
  all(
    table(
      columns,
      shown,
      lookOf({ args: [], env, screen: width === undefined ? undefined : { columns: width } }),
    ),
  )

describe('a table', () => {
  it('has heads, two spaces between, numbers right and a dash for what is not known', async () => {
    expect(await linesAt(200)).toEqual([
      'KEY                        PLAN   USED  REASON',
      `acme-2                     pro   9,204  20 strikes in 41 s${' '.repeat(42)}  so far`,
      `a-key-with-a-very-long-id  free      –  ${'x'.repeat(60)}`,
    ])
  })

  it.each([
    [120, ['KEY', 'PLAN', 'USED', 'REASON'], 0],
    [80, ['KEY', 'PLAN', 'USED', 'REASON'], 1],
    [60, ['KEY', 'USED', 'REASON'], 1],
    [52, ['KEY', 'REASON'], 2],
    [20, ['KEY', 'REASON'], 2],
  ])('at %d columns has %j', async (width, heads, cut) => {
    const lines = await linesAt(width)
    expect(lines[0]?.split(/ {2,}/)).toEqual(heads)
    expect(lines.filter((line) => line.includes('…'))).toHaveLength(cut)
    // The id and the least of a text are wider than 20.
    if (width > 51) for (const line of lines) expect(line.length).toBeLessThanOrEqual(width)
    expect(lines[2]).toContain('a-key-with-a-very-long-id')
  })

  it('is for a program tabs between plain values: no head, nothing cut, no note', async () => {
    expect(await linesAt(undefined)).toEqual([
      'acme-2\tpro\t9204\t20 strikes in 41 s',
      `a-key-with-a-very-long-id\tfree\t\t${'x'.repeat(60)}`,
    ])
  })

  it('has nothing, not even a head, of no rows', async () => {
    expect([await linesAt(80, []), await linesAt(undefined, [])]).toEqual([[], []])
  })

  it('colours a cell without a change of its width', async () => {
    const [plain, coloured] = [await linesAt(80), await linesAt(80, rows, { NO_COLOR: '' })]
    expect(coloured[1]).toContain('\x1b[31m9,204\x1b[39m')
    expect(coloured.map(stripVTControlCharacters)).toEqual(plain)
  })

  it('does not wait for the end of a long list', async () => {
    let made = 0
    const endless = function* (): Generator<Row> {
      for (;;) yield { key: `k${made++}`, plan: 'pro', used: made, reason: '' }
    }
    for await (const line of table(columns, endless(), { columns: 80, paint: (_, each) => each }))
      if (line.startsWith('k700 ')) break
    expect(made).toBeLessThan(720)
  })
})

describe('colour', () => {
  const paint = (args: string[], env: Record<string, string>) =>
    lookOf({ args, env, screen: { columns: 80 } })?.paint('red', 'x')

  it.each([
    [[], {}, '\x1b[31mx\x1b[39m'],
    [[], { NO_COLOR: '' }, '\x1b[31mx\x1b[39m'],
    [[], { NO_COLOR: '1' }, 'x'],
    [[], { TERM: 'dumb' }, 'x'],
    [['bans', '--no-color'], {}, 'x'],
  ])('of %j with %j is %j', (args, env, expected) => expect(paint(args, env)).toBe(expected))
})

describe('what others have written', () => {
  it.each([
    ['python-requests/2.32', 'python-requests/2.32'],
    ['Überlast – gesperrt…', 'Überlast – gesperrt…'],
    ['\x1b[2Jgone', '\\u{1b}[2Jgone'],
    ['a\tb\nc', 'a\\u{9}b\\u{a}c'],
    ['\u202eevil \u{1f600}', '\\u{202e}evil \\u{1f600}'],
    ['soft\u00adhyphen', 'soft\\u{ad}hyphen'],
  ])('%j is shown as %j', (written, shown) => expect(safe(written)).toBe(shown))
})
