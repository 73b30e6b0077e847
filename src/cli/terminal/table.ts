/** Tables: as wide as the terminal for a person, for a program with tabs between cells, without a head, and whole. */
import type { Column } from '../../tools/columns.ts'
import { safe, type Look } from './look.ts'

const GAP = 2
/** Minimum width of a text that is cut. */
const TEXT_AT_LEAST = 16
/** Later rows that are wider push what follows to the right: a list may have a million rows. */
const ROWS_MEASURED = 500

/** Yields line by line. look: undefined for a program. */
export async function* table<Row>(
  columns: readonly Column<Row>[],
  rows: Iterable<Row> | AsyncIterable<Row>,
  look: Look | undefined,
): AsyncGenerator<string> {
  let layout: Layout<Row> | undefined
  let waiting: Row[] = []
  const flushed = function* (shown: Look): Generator<string> {
    if (layout === undefined && waiting.length > 0) {
      layout = layOut(columns, waiting, shown.columns)
      yield line(layout, ({ head }) => head)
    }
    for (const row of waiting)
      yield line(
        layout ?? [],
        (column) => safe(column.text(row)),
        (column, cell) => shown.paint(column.colour?.(row), cell),
      )
    waiting = []
  }
  for await (const row of rows) {
    if (look === undefined) yield plainLine(columns, row)
    else if (waiting.push(row) === ROWS_MEASURED || layout !== undefined) yield* flushed(look)
  }
  if (look !== undefined) yield* flushed(look)
}

const plainLine = <Row>(columns: readonly Column<Row>[], row: Row): string =>
  columns
    .filter(({ kind }) => kind !== 'note')
    .map(({ plain }) => safe(String(plain(row) ?? '')))
    .join('\t')

type Layout<Row> = readonly { readonly column: Column<Row>; readonly width: number }[]

/** Makes columns fit: they go by their priority, then the last text is cut. */
function layOut<Row>(
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  width: number,
): Layout<Row> {
  const last = columns.findLast(({ kind }) => kind === 'text')
  let kept = columns.map((column) => {
    const widths = rows.map((row) => safe(column.text(row)).length)
    const full = Math.max(column.head.length, ...widths)
    return { column, width: full, least: column === last ? Math.min(full, TEXT_AT_LEAST) : full }
  })
  const over = (of: (each: (typeof kept)[number]) => number): number =>
    Math.max(kept.reduce((sum, each) => sum + of(each) + GAP, -GAP) - width, 0)
  while (over(({ least }) => least) > 0) {
    const drops = kept.map(({ column: { drop = -1 } }) => drop)
    if (Math.max(...drops) < 0) break
    kept = kept.toSpliced(drops.indexOf(Math.max(...drops)), 1)
  }
  const tooMuch = over((each) => each.width)
  return kept.map((each) => ({ ...each, width: Math.max(each.least, each.width - tooMuch) }))
}

const line = <Row>(
  layout: Layout<Row>,
  textOf: (column: Column<Row>) => string,
  paint = (_column: Column<Row>, cell: string): string => cell,
): string =>
  layout
    .map(({ column, width }) => {
      const whole = textOf(column)
      const isCut = column.kind === 'text' && whole.length > width
      const cell = isCut ? `${whole.slice(0, width - 1)}…` : whole
      const pad = ' '.repeat(Math.max(0, width - cell.length))
      return column.kind === 'number' ? pad + paint(column, cell) : paint(column, cell) + pad
    })
    .join(' '.repeat(GAP))
    .trimEnd()
