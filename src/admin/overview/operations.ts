/** Operations on the moment: the overview, the busiest clients, recent requests and events. */
import { z } from 'zod'
import { duration } from '../../config/scalars.ts'
import { KEPT_DECISIONS } from '../../core/record/recent.ts'
import { eventTypes } from '../../insight/live/events.ts'
import { fault, json, Refused, seen } from '../answers.ts'
import { checked, look, type ApiNeeds, type Operation } from '../operation.ts'

const NONE = 'is none of these'
const topQuery = z.strictObject({
  by: z.enum(['requests', 'refusals', 'latency'], NONE).default('requests'),
  window: duration('10s', '15m').prefault('60s'),
})
const TOP_FORM = 'Ask with ?by=requests, refusals or latency, and ?window= from 10s to 15m.'

const requestsQuery = z.strictObject({
  client: z.string().optional(),
  refused: z.enum(['true', 'false'], NONE).default('false'),
})

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
  look('/api/overview', async ({ overview }) =>
    json(200, { ...seen('gateway'), ...(await overview()) }),
  ),
  look('/api/top', (needs, { query }) =>
    json(200, topOf(needs, checked(query, topQuery, TOP_FORM))),
  ),
  look('/api/requests', async ({ recentRequests }, { query }) => {
    const form = 'Ask with ?client=ID, ?refused=true, both, or neither.'
    const { client, refused } = checked(query, requestsQuery, form)
    const asked = { client, refused: refused === 'true', id: undefined }
    const { requests, missing } = await recentRequests(asked)
    return json(200, { ...seen('gateway', missing), kept: KEPT_DECISIONS, requests })
  }),
  look('/api/requests/{id}', async ({ recentRequests }, { params: { id } }) => {
    const { requests, missing } = await recentRequests({ client: undefined, refused: false, id })
    const [request] = requests
    if (request !== undefined) return json(200, { ...seen('gateway', missing), request })
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

/** GET /api/top. error: largest amount by which a count may be too low; 0: exact. minute, day: use when this gateway last saw the client; null: it has not. */
export type Top = ReturnType<typeof topOf>

function topOf({ live }: ApiNeeds, { by, window }: z.infer<typeof topQuery>) {
  const now = Math.floor(Date.now() / 1000)
  const { clients, ...top } = live.top.top(by, window)
  const shown = clients.map((one) => {
    const { minute = null, day = null } = live.clients.get(one.client, now) ?? {}
    return { ...one, minute, day }
  })
  return { ...seen('gateway'), ...top, clients: shown }
}
