/** Daily use of a client: bars, a table, and a file. */
import { clock, count, csvLine } from '../../../insight/format.js'
import { now } from '../live.js'
import { button, html, useAnswer, useState } from '../ui.js'

/** @import { ClientUsage, PlanTotals } from '../../../insight/api/usage.ts' */

const DAY_MS = 86_400_000
const HEIGHT = 100
const REFRESH_MS = 30_000

/** @param {number} atMs */
const dayOf = (atMs) => new Date(atMs).toISOString().slice(0, 10)

/** @param {string} head @param {PlanTotals} totals */
const row = (head, { admitted, refused }) => html`<tr>
  <th scope="row">${head}</th>
  ${[admitted, refused.minute, refused.day, refused.ban].map(
    (value) => html`<td class="number">${count(value)}</td>`,
  )}
</tr>`

/** @param {ClientUsage} usage */
const dayTable = ({ days }) => html`<details>
  <summary>Table by day</summary>
  <div class="scroll" tabindex="0" role="region" aria-label="Table by day">
    <table>
      <thead>
        <tr>
          <th scope="col">Day (UTC)</th>
          ${['Admitted', 'Refused by minute', 'by day', 'by ban'].map(
            (head) => html`<th scope="col" class="number">${head}</th>`,
          )}
        </tr>
      </thead>
      <tbody>
        ${days
          .toReversed()
          .map((day) => [
            row(day.day, day),
            ...(day.plans ?? []).map((one) => row(`${day.day}, plan ${one.plan}`, one)),
          ])}
      </tbody>
    </table>
  </div>
</details>`

/** One bar a day up to today, and today's limit as a line. @param {ClientUsage} usage @param {number} length @param {number | undefined} limit */
function bars({ days, to, asOf }, length, limit) {
  if (days.length === 0)
    return html`<p class="empty">No request in these days. A day is here seconds after its first one.</p>`
  const most = days.reduce((one, other) => Math.max(one, other.admitted), 0)
  // A line far above the bars would flatten them.
  const hasLine = limit !== undefined && limit < most * 4
  const top = (hasLine ? Math.max(most, limit) : most) * 1.05
  const y = (/** @type {number} */ value) => HEIGHT - (value / Math.max(top, 1)) * HEIGHT
  const last = Date.parse(to)
  const x = (/** @type {string} */ day) => length - 1 - (last - Date.parse(day)) / DAY_MS + 0.1
  const best = days.find(({ admitted }) => admitted === most)
  const place = hasLine ? 'dashed' : 'above this'
  const limitText = limit === undefined ? '' : `; limit now ${count(limit)}, ${place}`
  const words = `Admitted per day, most ${count(most)} on ${best?.day}${limitText}`
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

/** @param {{ client: string, limit: number | undefined }} props the limit per day, now */
export function History({ client, limit }) {
  const [length, pick] = useState(30)
  const from = dayOf(now() - (length - 1) * DAY_MS)
  const path = `/api/clients/${encodeURIComponent(client)}/usage?from=${from}&to=${dayOf(now())}`
  /** @type {ReturnType<typeof useAnswer<ClientUsage>>} */
  const { answer, note } = useAnswer(path, REFRESH_MS)
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

/** Offers a CSV file with the columns of /api/usage. @param {ClientUsage} usage */
function download({ client, from, to, days }) {
  const head = 'day,client,plan,admitted,refused_minute,refused_day,refused_ban'
  const lines = days.flatMap((each) =>
    (each.plans ?? [each]).map(({ plan, admitted, refused: { minute, day, ban } }) =>
      csvLine([each.day, client, plan, admitted, minute, day, ban]),
    ),
  )
  const text = `${[head, ...lines].join('\r\n')}\r\n`
  const url = URL.createObjectURL(new Blob([text], { type: 'text/csv' }))
  const link = document.createElement('a')
  Object.assign(link, { href: url, download: `${client}-${from}-${to}.csv` }).click()
  setTimeout(() => URL.revokeObjectURL(url), 1_000)
}
