/** The report as a table, and as one page that needs neither scripts nor the network. */
import { windows } from '../../config/time.ts'
import { id, text, type Colour, type Column } from '../columns.ts'
import { markup, page, table } from '../replay/html/markup.ts'
import type { Verdict } from './check.ts'
import { inOneLine, type Report, type Row } from './suite.ts'

const colours: Record<Verdict, Colour | undefined> = {
  holds: 'green',
  broken: 'red',
  'cannot tell': 'yellow',
  'not claimed': undefined,
}

/** The first three are for a terminal, which has no room for more. */
export const columns: readonly Column<Row>[] = [
  id<Row>('CHECK', ({ name }) => name),
  id<Row>('VERDICT', ({ verdict }) => verdict, { colour: ({ verdict }) => colours[verdict] }),
  text<Row>('SEEN', ({ seen }) => seen),
  text<Row>('RULE', ({ rule }) => rule),
  text<Row>('SOURCE', ({ source }) => source),
]

export function reportPage(report: Report): string {
  const { target, limits, startedAt, checks } = report
  const allowed = windows.map(({ name, limit }) => `${limits[limit]} a ${name}`).join(', ')
  const body = markup`<main>
<h1>Conformance of ${target}</h1>
<p>${allowed}. ${inOneLine(report)}, from ${startedAt}.</p>
${table('Checks', { columns, rows: checks })}
</main>`
  return page(`Conformance of ${target}`, body)
}
