/** Clients that shadow limits, which are only tried, would have refused. */
import { count, plural } from '../../../insight/format.js'
import { Table } from '../table.js'
import { h, source, time, timeText } from '../ui.js'
import { clientLink } from './parts.js'

/** @import { Shadow, ShadowClient, ShadowPlan } from '../../../insight/api/shadow.ts' */
/** @import { Limits } from '../../../config/config.ts' */
/** @import { Column } from '../table.js' */

/** @type {Column<ShadowClient>[]} */
const shadowColumns = [
  {
    head: 'Client',
    kind: 'title',
    text: ({ client }) => client,
    draw: (current) => clientLink(current().client),
  },
  { head: 'Plan', text: ({ plan }) => plan },
  { head: 'Requests', number: true, text: ({ requests }) => count(requests) },
  { head: 'By minute', number: true, text: ({ refused }) => count(refused.minute) },
  { head: 'By day', number: true, text: ({ refused }) => count(refused.day) },
  { head: 'Not judged', number: true, text: ({ degraded }) => count(degraded) },
  {
    head: 'Refused live',
    number: true,
    text: ({ liveRefused: { minute, day } }) => count(minute + day),
  },
  { head: 'First', text: ({ first }) => timeText(first), draw: (current) => time(current().first) },
]

/** @param {Limits | null} limits */
const inFigures = (limits) =>
  limits === null ? 'their own' : `${count(limits.perMinute)}/min ${count(limits.perDay)}/day`

/** @param {ShadowPlan} tried */
const inWords = ({ plan, limits, live, requests, refused, clients, degraded }) =>
  `${plan} at ${inFigures(limits)}, not ${inFigures(live)}: ${count(refused.minute + refused.day)} of ${plural(requests, 'request')}, ${plural(clients, 'client')}${degraded > 0 ? `; ${count(degraded)} not judged` : ''}.`

/** The view is hidden while no plan has shadow limits. */
export function shadows() {
  const clients = new Table({
    caption: 'Shadow: would be refused',
    idOf: (/** @type {ShadowClient} */ { client, plan }) => `${plan} ${client}`,
    empty: 'Nobody would have been refused.',
    columns: shadowColumns,
  })
  const words = h('div', { class: 'muted' })
  const title = h('h2', {}, 'Shadow: would be refused')
  const shadow = source('/api/shadow', (/** @type {Shadow} */ answer) => {
    node.hidden = answer.plans.length === 0
    const plans = answer.plans.map((tried) => h('p', {}, inWords(tried)))
    words.replaceChildren(
      h('p', {}, `Of this gateway alone, since ${timeText(answer.since)}`),
      ...plans,
    )
    clients.update(answer.clients)
  })
  const node = h('section', { hidden: true }, title, shadow.note, words, clients.node)
  return { node, load: shadow.load }
}
