/** Clients that shadow limits, which are only tried, would have refused. */
import { windowNames } from '../../config/time.ts'
import { count, limitsText, plural, sum } from '../../insight/format.js'
import { Table, type Column, type Listing } from '../page/table.ts'
import { html, section, time, timeText, useAnswer } from '../page/ui.ts'
import { clientLink } from '../clients/view-rows.ts'
import type { Shadow } from './operations.ts'
import type { Limits } from '../../config/config.ts'

type Row = Shadow['clients'][number]
const listing: Listing<Row> = {
  caption: 'Shadow: would be refused',
  idOf: ({ client, plan }) => `${plan} ${client}`,
  empty: 'Nobody would have been refused.',
  columns: [
    ['Client', ({ client }) => clientLink(client), 'title'],
    ['Plan', ({ plan }) => plan],
    ['Requests', ({ requests }) => count(requests), 'number'],
    ...windowNames.map((name): Column<Row> => {
      return [`By ${name}`, ({ refused }) => count(refused[name]), 'number']
    }),
    ['Not judged', ({ degraded }) => count(degraded), 'number'],
    ['Refused live', ({ liveRefused }) => count(sum(liveRefused)), 'number'],
    ['First', ({ first }) => time(first)],
  ],
}

const inFigures = (limits: Limits | null) => (limits === null ? 'their own' : limitsText(limits))

type Tried = Shadow['plans'][number]
const inWords = ({ plan, limits, live, requests, refused, clients, degraded }: Tried) =>
  `${plan} at ${inFigures(limits)} instead of ${inFigures(live)} would refuse ${count(sum(refused))} of ${plural(requests, 'request')}, of ${plural(clients, 'client')}${degraded > 0 ? `; ${count(degraded)} not judged` : ''}.`

/** Hidden while no plan has shadow limits. */
export function Shadows() {
  const { answer, note } = useAnswer<Shadow>('/api/shadow')
  if (answer === undefined || answer.plans.length === 0) return null
  return section(
    listing.caption,
    note,
    html`<div class="muted">
      <p>Since ${timeText(answer.since)}</p>
      ${answer.plans.map((tried) => html`<p>${inWords(tried)}</p>`)}
    </div>`,
    html`<${Table} ...${listing} rows=${answer.clients} />`,
  )
}
