/** Operations on the moment: the overview, the busiest clients, recent requests, and events. */
import type { Overview, Requests, Top } from '../insight/api/live.ts'
import { refusalKinds } from '../core/rules/refusals.ts'
import { duration } from '../config/scalars.ts'
import { eventTypes, type EventType } from '../insight/live/events.ts'
import type { Live } from '../insight/live/live.ts'
import { KEPT_DECISIONS, type RequestQuery } from '../core/record/recent.ts'
import { fault, invalidRequest, json, notFound, seen, type Answer } from './answers.ts'
import type { Call } from './operation.ts'

export interface LiveNeeds {
  readonly live: Live
  overview(): Promise<Omit<Overview, 'asOf' | 'scope'>>
  /** Recent requests of all processes; missing: those that have not answered. */
  recentRequests(
    query: RequestQuery,
  ): Promise<Pick<Requests, 'requests'> & { readonly missing: readonly string[] }>
}

const orders = new Set<string>(['requests', 'refusals', 'latency'] satisfies Top['by'][])
const window = duration({ min: 10_000, max: 900_000 })

export const getOverview = async ({ overview }: LiveNeeds): Promise<Answer> =>
  json(200, { ...seen('gateway'), ...(await overview()) })

export function getTop({ live }: LiveNeeds, { query }: Call): Answer {
  const { by = 'requests', window: given = '60s', ...unknown } = Object.fromEntries(query)
  const windowMs = window.safeParse(given).data
  if (!orders.has(by) || windowMs === undefined || Object.keys(unknown).length > 0)
    return invalidRequest(
      'Ask with ?by=requests, refusals or latency, and ?window= from 10s to 15m.',
    )
  const now = Math.floor(Date.now() / 1000)
  const top = live.top.top(by as Top['by'], windowMs, (client) => {
    const { minute = null, day = null } = live.clients.get(client, now) ?? {}
    return { minute, day }
  })
  return json(200, { ...seen('gateway'), ...top })
}

export async function getRequests({ recentRequests }: LiveNeeds, { query }: Call): Promise<Answer> {
  const { client, refused = 'false', ...unknown } = Object.fromEntries(query)
  if (!/^(?:true|false)$/.test(refused) || Object.keys(unknown).length > 0)
    return invalidRequest('Ask with ?client=ID, ?refused=true, both, or neither.')
  const asked = { client, refused: refused === 'true', id: undefined }
  const { requests, missing } = await recentRequests(asked)
  return json(200, { ...seen('gateway', missing), kept: KEPT_DECISIONS, requests })
}

export async function getRequest(
  { recentRequests }: LiveNeeds,
  { params }: Call<{ readonly id: string }>,
): Promise<Answer> {
  const asked = { client: undefined, refused: false, id: params.id }
  const { requests, missing } = await recentRequests(asked)
  const [request] = requests
  if (request !== undefined) return json(200, { ...seen('gateway', missing), request })
  return missing.length === 0
    ? notFound
    : fault({ code: 'not_found', ...refusalKinds.not_found }, { missing })
}

const isEventType = (text: string): text is EventType =>
  (eventTypes as readonly string[]).includes(text)

const tooMany = fault({
  status: 503,
  code: 'too_many_listeners',
  message: 'As many listen already as may at once; close one of them.',
})

export function getEvents({ live: { events } }: LiveNeeds, { query }: Call): Answer {
  const { types = eventTypes.join(','), client, ...unknown } = Object.fromEntries(query)
  const wanted = types.split(',')
  if (!wanted.every(isEventType) || Object.keys(unknown).length > 0)
    return invalidRequest(
      `Ask with ?types= some of ${eventTypes.join(',')}, ?client=ID, both, or neither.`,
    )
  if (events.isFull) return tooMany
  const filter = { types: new Set(wanted), client }
  return {
    status: 200,
    contentType: 'text/event-stream; charset=utf-8',
    body: (gone) => events.read(filter, gone),
  }
}
