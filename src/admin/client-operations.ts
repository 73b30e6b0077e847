/** Operations on clients: list, show, and reset their use. */
import type {
  ClientDetail,
  ClientRow,
  ClientsPage,
  ClientState,
  ResetDone,
  WindowUse,
} from '../insight/api/usage.ts'
import type { ClientCounters, Window } from '../state/memory/client-counters.ts'
import type { Counters } from '../state/counters.ts'
import { DAY_MS, MINUTE_MS } from '../config/time.ts'
import { endsAtSeconds } from '../core/rules/ban-policy.ts'
import type { BanRecord } from '../state/bans.ts'
import { invalidRequest, iso, json, notDone, seen, unknownClient, type Answer } from './answers.ts'
import type { BanNeeds } from './ban-operations.ts'
import { findClient, pageOf, type ClientQuery, type ShownClient } from './client-pages.ts'
import type { LiveNeeds } from './live-operations.ts'
import type { Call, Changed } from './operation.ts'
import { isAnswer, isRecord, readJson } from './read-json.ts'

export interface ClientNeeds extends BanNeeds, Pick<LiveNeeds, 'live' | 'recentRequests'> {
  readonly counters: Pick<Counters, 'look' | 'reset'>
}

type ClientCall = Call<{ readonly id: string }>

const sorts = new Set<string>(['nearest', 'used', 'refused', 'id'] satisfies ClientQuery['sort'][])
const AWAY = 'the store is away: what clients have used is not known'

export async function getClients(needs: ClientNeeds, { query }: Call): Promise<Answer> {
  const { plan, q, sort = 'id', cursor, ...unknown } = Object.fromEntries(query)
  const isPlace = cursor === undefined || /^(?:rest:\d{1,9}|seen:[\d.e+-]{1,24}:.+)$/.test(cursor)
  const isForeign = sort === 'id' && cursor?.startsWith('seen:')
  if (!sorts.has(sort) || !isPlace || isForeign || Object.keys(unknown).length > 0)
    return invalidRequest(
      'Ask with ?sort=nearest, used, refused or id, ?plan=NAME, ?q= part of an id, ?cursor=CURSOR of the page before, or none of them.',
    )
  const { config } = needs.reloads
  const asked = { sort: sort as ClientQuery['sort'], plan, q: q || undefined, cursor }
  const { clients, ...page } = await pageOf(config, needs.live.clients, asked)
  const { rows, head } = await rowsOf(needs, clients)
  return json(200, { ...head, ...page, sort: asked.sort, clients: rows } satisfies ClientsPage)
}

export async function getClient(needs: ClientNeeds, { params: { id } }: ClientCall) {
  const client = findClient(needs.reloads.config, needs.live.clients, id)
  if (client === undefined) return unknownClient
  const [{ rows, head }, { requests, missing }] = await Promise.all([
    rowsOf(needs, [client]),
    needs.recentRequests({ client: id, refused: true, id: undefined }),
  ])
  const [row] = rows
  if (row === undefined) return unknownClient
  return json(200, {
    ...seen(head.scope, [...(head.missing ?? []), ...missing]),
    client: row,
    recentRefusals: requests,
  } satisfies ClientDetail)
}

export async function resetClient(needs: ClientNeeds, call: ClientCall): Promise<Changed> {
  const { id } = call.params
  const body = await readJson(call.request)
  if (isAnswer(body)) return refused(body)
  const window = wishOf(body)
  if (window === undefined)
    return refused(invalidRequest('Send {"window":"minute"}, "day" or "both".'))
  const client = findClient(needs.reloads.config, needs.live.clients, id)
  if (client === undefined) return refused(unknownClient)
  const windows: readonly Window[] = window === 'both' ? ['minute', 'day'] : [window]
  try {
    const done = await needs.counters.reset(client, windows)
    needs.live.clients.forgetUse(id, window)
    const [before, after] = [usedOf(done.before), usedOf(done.after)]
    const answer: ResetDone = { ...seen('store'), client: id, window, before, after }
    return { answer: json(200, answer), audit: { client: id, window, before, after } }
  } catch (error) {
    return refused(notDone(error), { client: id, window })
  }
}

const refused = (answer: Answer, audit: Changed['audit'] = {}): Changed => ({ answer, audit })

const usedOf = ({ minute, day }: ClientCounters) => ({ minute: minute.used, day: day.used })

function wishOf(body: unknown): ResetDone['window'] | undefined {
  if (!isRecord(body)) return undefined
  const { window, ...unknown } = body
  if (Object.keys(unknown).length > 0) return undefined
  return window === 'minute' || window === 'day' || window === 'both' ? window : undefined
}

/** Rows have the store's numbers, or none while it is away. */
async function rowsOf(needs: ClientNeeds, clients: readonly ShownClient[]) {
  const [counters, bans] = await Promise.all([
    needs.counters.look(clients).catch(() => undefined),
    needs.bans.list().catch(() => needs.bans.known()),
  ])
  const banned = new Map(bans)
  const rows = clients.map((client, at) => rowOf(needs, client, counters?.[at], banned))
  return { rows, head: counters === undefined ? seen('gateway', [AWAY]) : seen('store') }
}

function rowOf(
  { live }: ClientNeeds,
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
  { index, taken, used }: ClientCounters[Window],
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
