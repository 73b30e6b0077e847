/** Operations on the moment: the overview, the busiest clients, recent requests and events. */
import { z } from 'zod'
import { duration } from '../../config/scalars.ts'
import { perWindow } from '../../config/time.ts'
import { KEPT_DECISIONS } from '../../core/record/recent.ts'
import type { Requests, Whole } from '../../insight/api/live.ts'
import { eventTypes } from '../../insight/live/events.ts'
import { listed } from '../../insight/live/top.ts'
import { newestOf, summed } from '../../insight/live/sums.ts'
import { fault, Refused, seen } from '../answers.ts'
import { checked, look, lookAtAll, type ApiNeeds, type Call, type Operation } from '../operation.ts'

const NONE = 'is none of these'
const topQuery = z.strictObject({
  by: z.enum(['requests', 'refusals', 'latency'], NONE).default('requests'),
  window: duration('10s', '15m').prefault('60s'),
})
const TOP_FORM = 'Ask with ?by=requests, refusals or latency, and ?window= from 10s to 15m.'

const requestsQuery = z.strictObject({
  client: z.string().optional(),
  refused: z.enum(['true', 'false'], NONE).default('false'),
  id: z.string().optional(),
})
const REQUESTS_FORM = 'Ask with ?client=ID, ?refused=true, ?id=REQUEST_ID, or none of them.'

const eventsQuery = z.strictObject({
  types: z
    .string()
    .default(eventTypes.join())
    .transform((types) => types.split(','))
    .pipe(z.array(z.enum(eventTypes, NONE))),
  client: z.string().optional(),
})
const EVENTS_FORM = `Ask with ?types= some of ${eventTypes.join(',')}, ?client=ID, both, or neither.`

export const overviewOperations: readonly Operation[] = [
  look('/api/overview', async ({ overview }) => ({ ...seen('gateway'), ...(await overview()) })),
  lookAtAll('/api/top', topOf, mergeTops),
  lookAtAll('/api/requests', requestsOf, (parts) => ({
    ...parts[0],
    requests: newestOf(parts.map(({ requests }) => requests)),
  })),
  look('/api/requests/{id}', async ({ recentRequests }, { params: { id } }) => {
    const { requests, missing } = await recentRequests({ client: undefined, refused: false, id })
    const [request] = requests
    if (request !== undefined) return { ...seen('gateway', missing), request }
    return fault('not_found', missing.length > 0 ? { missing } : {})
  }),
  look('/api/events', ({ live: { events } }, { query }) => {
    const { types, client } = checked(query, eventsQuery, EVENTS_FORM)
    if (events.isFull) throw new Refused('too_many_listeners')
    return {
      status: 200,
      contentType: 'text/event-stream; charset=utf-8',
      body: (gone) => events.read({ types: new Set(types), client }, gone),
    }
  }),
]

/** GET /api/top. error: largest amount by which a count may be too low; 0: exact. Of each window: use when this gateway last saw the client; null: it has not. */
export type Top = Whole<ReturnType<typeof mergeTops>>
type TopPart = ReturnType<typeof topOf>

function topOf({ live }: ApiNeeds, { query }: Call) {
  const { by, window } = checked(query, topQuery, TOP_FORM)
  const now = Math.floor(Date.now() / 1000)
  const { clients, ...top } = live.top.part(by, window)
  const shown = clients.map((one) => {
    const known = live.clients.get(one.client, now)
    return { ...one, ...perWindow(({ name }) => known?.[name] ?? null) }
  })
  return { ...seen('gateway'), ...top, clients: shown }
}

/** Of a client what a gateway has counted is missing where it is not among the first thousand there. */
function mergeTops(parts: readonly [TopPart, ...TopPart[]]) {
  const clients = summed(
    parts.flatMap((part) => part.clients),
    ['client'],
    ([one, other]) => {
      // The use is the store's: who saw the client last knows of most.
      const last = (other.day?.used ?? -1) > (one.day?.used ?? -1) ? other : one
      return { maxMs: Math.max(one.maxMs, other.maxMs), ...perWindow(({ name }) => last[name]) }
    },
  )
  return {
    ...parts[0],
    windowMs: Math.max(...parts.map(({ windowMs }) => windowMs)),
    error: parts.reduce((sum, { error }) => sum + error, 0),
    clients: listed(parts[0].by, clients),
  }
}

async function requestsOf({ recentRequests }: ApiNeeds, { query }: Call): Promise<Requests> {
  const { client, refused, id } = checked(query, requestsQuery, REQUESTS_FORM)
  const { requests, missing } = await recentRequests({ client, refused: refused === 'true', id })
  return { ...seen('gateway', missing), kept: KEPT_DECISIONS, requests }
}
