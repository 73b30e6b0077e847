/** The report as lines: a table with broken rules in full for a person, a line for each check for a program. */
import { safe, type Colour, type Look } from './terminal/look.ts'
import { id, table, text, type Column } from './terminal/table.ts'
import type { Verdict } from '../tools/conformance/check.ts'
import { inOneLine, type Report, type Row } from '../tools/conformance/suite.ts'

const colours: Record<Verdict, Colour | undefined> = {
  holds: 'green',
  broken: 'red',
  'cannot tell': 'yellow',
  'not claimed': undefined,
}

const columns: readonly Column<Row>[] = [
  id<Row>('CHECK', ({ name }) => name),
  id<Row>('VERDICT', ({ verdict }) => verdict, { colour: ({ verdict }) => colours[verdict] }),
  text<Row>('SEEN', ({ seen }) => seen),
]
/** A program has the width for these. */
const more = [text<Row>('RULE', ({ rule }) => rule), text<Row>('SOURCE', ({ source }) => source)]

/** look: undefined for a program. */
export async function* reportLines(report: Report, look: Look | undefined): AsyncGenerator<string> {
  yield* table(look === undefined ? [...columns, ...more] : columns, report.checks, look)
  if (look === undefined) return
  for (const { verdict, name, rule, source, seen } of report.checks)
    if (verdict === 'broken') {
      yield ''
      yield `${look.paint('red', name)}: ${safe(seen)}`
      yield* `${rule} (${source})`.match(/\S.{0,76}(?=\s|$)/g)?.map((line) => `  ${line}`) ?? []
    }
  yield ''
  yield inOneLine(report)
}
