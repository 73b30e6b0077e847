/** Daily use of a client: bars, a table, and a file. */
import { DAY_MS } from '../../config/time.ts'
import { clock, count, limitText, refusers } from '../../insight/format.js'
import { now } from '../page/live.ts'
import { Table, type Column, type Listing } from '../page/table.ts'
import { button, html, useAnswer, useState } from '../page/ui.ts'
import { usageLines } from './words.ts'
import type { ClientUsage, PlanTotals } from './operations.ts'

const HEIGHT = 100
const REFRESH_MS = 30_000

const dayOf = (atMs: number) => new Date(atMs).toISOString().slice(0, 10)

interface Row {
  readonly head: string
  readonly totals: PlanTotals
}
const listing: Listing<Row> = {
  caption: 'Use by day',
  idOf: ({ head }) => head,
  columns: [
    ['Day (UTC)', ({ head }) => head, 'title'],
    ['Admitted', ({ totals }) => count(totals.admitted), 'number'],
    ...refusers.map((by): Column<Row> => {
      return [`Refused by ${by}`, ({ totals }) => count(totals.refused[by]), 'number']
    }),
  ],
}

function dayTable({ days }: ClientUsage) {
  const rows = days.toReversed().flatMap((totals) => [
    { head: totals.day, totals },
    ...(totals.plans ?? []).map((one) => ({
      head: `${totals.day}, plan ${one.plan}`,
      totals: one,
    })),
  ])
  return html`<details>
    <summary>Table by day</summary>
    <div class="scroll" tabindex="0" role="region" aria-label="Table by day">
      <${Table} ...${listing} rows=${rows} />
    </div>
  </details>`
}

/** One bar a day up to today, and today's limit as a line. */
function bars({ days, to, asOf }: ClientUsage, longest: number, limit: number | undefined) {
  if (days.length === 0)
    return html`<p class="empty">No request in these days. A day is here seconds after its first one.</p>`
  const most = days.reduce((one, other) => Math.max(one, other.admitted), 0)
  // A line far above the bars would flatten them.
  const hasLine = limit !== undefined && limit < most * 4
  const top = (hasLine ? Math.max(most, limit) : most) * 1.05
  const y = (value: number) => HEIGHT - (value / Math.max(top, 1)) * HEIGHT
  const last = Date.parse(to)
  // The axis begins where data does, or a week ago.
  const first = Date.parse(days[0]?.day ?? to)
  const length = Math.min(longest, Math.max(7, (last - first) / DAY_MS + 1))
  const x = (day: string) => length - 1 - (last - Date.parse(day)) / DAY_MS + 0.1
  const best = days.find(({ admitted }) => admitted === most)
  const place = hasLine ? ', dashed' : ''
  const line = limit === undefined ? '' : `; limit now ${limitText(limit, 'day')}${place}`
  const words = `Admitted per day, most ${count(most)} on ${best?.day}${line}`
  return html`
    <p class="muted">${words}</p>
    <svg viewBox="0 0 ${length} ${HEIGHT}" preserveAspectRatio="none" role="img" aria-label=${words}>
      ${days.map(
        ({ day, admitted }) => html`
          <rect
            fill="var(--admitted)"
            x=${x(day)}
            y=${y(admitted)}
            width="0.8"
            height=${HEIGHT - y(admitted)}
          />`,
      )}
      ${hasLine && html`<line x1="0" x2=${length} y1=${y(limit)} y2=${y(limit)} class="limit" />`}
    </svg>
    <p class="muted ends">
      <span>${dayOf(last - (length - 1) * DAY_MS)}</span>
      <span>today, ${clock(Date.parse(asOf), now())}</span>
    </p>`
}

/** props: the limit per day, now */
export function History({ client, limit }: { client: string; limit: number | undefined }) {
  const [length, pick] = useState(30)
  const from = dayOf(now() - (length - 1) * DAY_MS)
  const path = `/api/clients/${encodeURIComponent(client)}/usage?from=${from}&to=${dayOf(now())}`
  const { answer, note } = useAnswer<ClientUsage>(path, REFRESH_MS)
  const spans = [30, 400].map((days) =>
    button(`${days} d`, () => pick(days), { 'aria-pressed': days === length }),
  )
  return html`<section>
    <h2>History</h2>
    <p class="actions">
      ${spans} ${button('CSV', () => answer && download(answer), { 'aria-label': 'History as CSV' })}
    </p>
    ${note}
    <div class="bars">${answer && bars(answer, length, limit)}</div>
    ${answer && dayTable(answer)}
  </section>`
}

/** Offers a CSV file with the columns of /api/usage. */
function download(usage: ClientUsage) {
  const { client, from, to } = usage
  const text = `${usageLines(usage).join('\r\n')}\r\n`
  const url = URL.createObjectURL(new Blob([text], { type: 'text/csv' }))
  const link = document.createElement('a')
  Object.assign(link, { href: url, download: `${client}-${from}-${to}.csv` }).click()
  setTimeout(() => URL.revokeObjectURL(url), 1_000)
}
