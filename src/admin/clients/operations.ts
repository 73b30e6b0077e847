/** Operations on clients: list, show, and reset their use. */
import { z } from 'zod'
import type {
  ClientDetail,
  ClientRow,
  ClientsPage,
  ClientState,
  ResetDone,
  WindowUse,
} from '../../insight/api/usage.ts'
import type { ClientCounters } from '../../state/counters.ts'
import { DAY_MS, MINUTE_MS, windowNames } from '../../config/time.ts'
import { endsAtSeconds } from '../../core/rules/ban-policy.ts'
import type { BanRecord } from '../../state/bans.ts'
import { acted, iso, json, Refused, seen } from '../answers.ts'
import { CLIENTS_FORM, clientsQuery, findClient, pageOf, type ShownClient } from './pages.ts'
import { change, checked, look, readJson, type ApiNeeds, type Operation } from '../operation.ts'

const AWAY = 'the store is away: what clients have used is not known'

const resetBody = z.strictObject({ window: z.enum(['minute', 'day', 'both'], 'is none of these') })
const RESET_FORM = 'Send {"window":"minute"}, "day" or "both".'

export const clientOperations: readonly Operation[] = [
  look('/api/clients', async (needs, { query }) => {
    const asked = checked(query, clientsQuery, CLIENTS_FORM)
    const { clients, ...page } = await pageOf(needs.reloads.config, needs.live.clients, asked)
    const { rows, head } = await rowsOf(needs, clients)
    return json(200, { ...head, ...page, sort: asked.sort, clients: rows } satisfies ClientsPage)
  }),
  look('/api/clients/{id}', async (needs, { params: { id } }) => {
    const client = knownClient(needs, id)
    const [{ rows, head }, { requests, missing }] = await Promise.all([
      rowsOf(needs, [client]),
      needs.recentRequests({ client: id, refused: true, id: undefined }),
    ])
    const [row] = rows
    if (row === undefined) throw new Refused('unknown_client')
    return json(200, {
      ...seen(head.scope, [...(head.missing ?? []), ...missing]),
      client: row,
      recentRefusals: requests,
    } satisfies ClientDetail)
  }),
  change('POST', 'resetUsage')(
    '/api/clients/{id}/reset',
    async (needs, { params: { id }, audit, request }) => {
      const { window } = checked(await readJson(request), resetBody, RESET_FORM)
      const client = knownClient(needs, id)
      Object.assign(audit, { client: id, window })
      const windows = window === 'both' ? windowNames : [window]
      const done = await acted(needs.counters.reset(client, windows))
      needs.live.clients.forgetUse(id, window)
      const what = { before: usedOf(done.before), after: usedOf(done.after) }
      Object.assign(audit, what)
      return json(200, { ...seen('store'), client: id, window, ...what } satisfies ResetDone)
    },
  ),
]

function knownClient({ reloads, live }: ApiNeeds, id: string): ShownClient {
  const client = findClient(reloads.config, live.clients, id)
  if (client === undefined) throw new Refused('unknown_client')
  return client
}

const usedOf = ({ minute, day }: ClientCounters) => ({ minute: minute.used, day: day.used })

/** Rows have the store's numbers, or none while it is away. */
async function rowsOf(needs: ApiNeeds, clients: readonly ShownClient[]) {
  const [counters, bans] = await Promise.all([
    needs.counters.look(clients).catch(() => undefined),
    needs.bans.list().catch(() => needs.bans.known()),
  ])
  const banned = new Map(bans)
  const rows = clients.map((client, at) => rowOf(needs, client, counters?.[at], banned))
  return { rows, head: counters === undefined ? seen('gateway', [AWAY]) : seen('store') }
}

function rowOf(
  { live }: ApiNeeds,
  { id, plan, limits, keys: configured }: ShownClient,
  counters: ClientCounters | undefined,
  banned: ReadonlyMap<string, BanRecord>,
): ClientRow {
  const keys = configured.map((key) => ({
    id: key.id,
    expires: iso(key.expiresAtMs),
    lastUsed: iso(live.clients.lastUsedMs(key.id)),
    bannedUntil: iso(endOf(banned.get(key.id))),
  }))
  const minute = counters && useOf(counters.minute, limits.perMinute, MINUTE_MS)
  const day = counters && useOf(counters.day, limits.perDay, DAY_MS)
  return {
    id,
    plan,
    limits,
    minute: minute ?? null,
    day: day ?? null,
    share: minute && day ? Math.max(minute.used / minute.limit, day.used / day.limit) : null,
    refusedLately: live.clients.get(id, Math.floor(Date.now() / 1000))?.refusedLately ?? 0,
    state: minute && day ? stateOf(minute, day, keys) : null,
    keys,
  }
}

const endOf = (ban: BanRecord | undefined): number | undefined => ban && 1000 * endsAtSeconds(ban)

const useOf = (
  { index, taken, used }: ClientCounters['minute'],
  limit: number,
  lengthMs: number,
): WindowUse => ({
  used,
  leased: Math.max(0, taken - used),
  limit,
  resetsAt: iso((index + 1) * lengthMs),
})

function stateOf(minute: WindowUse, day: WindowUse, keys: ClientRow['keys']): ClientState {
  const valid = keys.filter(({ expires }) => expires === null || Date.parse(expires) > Date.now())
  const bans = valid.flatMap(({ bannedUntil }) => bannedUntil ?? [])
  const [until] = bans.toSorted()
  if (until !== undefined && bans.length === valid.length) return { state: 'banned', until }
  // The day is checked first, as its wait is longer.
  if (day.used >= day.limit) return { state: 'limited', by: 'day', until: day.resetsAt }
  if (minute.used >= minute.limit) return { state: 'limited', by: 'minute', until: minute.resetsAt }
  return { state: 'free' }
}
