/** Clients that shadow limits, which are only tried, would have refused. */
import { count, plural } from '../../../insight/format.js'
import { Table } from '../table.js'
import { html, time, timeText, useAnswer } from '../ui.js'
import { clientLink } from './parts.js'

/** @import { Shadow, ShadowClient, ShadowPlan } from '../../../insight/api/shadow.ts' */
/** @import { Limits } from '../../../config/config.ts' */
/** @import { Column } from '../table.js' */

/** @type {Column<ShadowClient>[]} */
const shadowColumns = [
  { head: 'Client', kind: 'title', cell: ({ client }) => clientLink(client) },
  { head: 'Plan', cell: ({ plan }) => plan },
  { head: 'Requests', number: true, cell: ({ requests }) => count(requests) },
  { head: 'By minute', number: true, cell: ({ refused }) => count(refused.minute) },
  { head: 'By day', number: true, cell: ({ refused }) => count(refused.day) },
  { head: 'Not judged', number: true, cell: ({ degraded }) => count(degraded) },
  {
    head: 'Refused live',
    number: true,
    cell: ({ liveRefused: { minute, day } }) => count(minute + day),
  },
  { head: 'First', cell: ({ first }) => time(first) },
]

/** @param {Limits | null} limits */
const inFigures = (limits) =>
  limits === null ? 'their own' : `${count(limits.perMinute)}/min ${count(limits.perDay)}/day`

/** @param {ShadowPlan} tried */
const inWords = ({ plan, limits, live, requests, refused, clients, degraded }) =>
  `${plan} at ${inFigures(limits)}, not ${inFigures(live)}: ${count(refused.minute + refused.day)} of ${plural(requests, 'request')}, ${plural(clients, 'client')}${degraded > 0 ? `; ${count(degraded)} not judged` : ''}.`

/** Hidden while no plan has shadow limits. */
export function Shadows() {
  /** @type {ReturnType<typeof useAnswer<Shadow>>} */
  const { answer, note } = useAnswer('/api/shadow')
  if (answer === undefined || answer.plans.length === 0) return null
  return html`<section>
    <h2>Shadow: would be refused</h2>
    ${note}
    <div class="muted">
      <p>Of this gateway alone, since ${timeText(answer.since)}</p>
      ${answer.plans.map((tried) => html`<p>${inWords(tried)}</p>`)}
    </div>
    <${Table}
      caption="Shadow: would be refused"
      idOf=${(/** @type {ShadowClient} */ { client, plan }) => `${plan} ${client}`}
      empty="Nobody would have been refused."
      columns=${shadowColumns}
      rows=${answer.clients}
    />
  </section>`
}
