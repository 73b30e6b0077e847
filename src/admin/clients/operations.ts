/** Operations on clients: list, show, and reset their use. */
import { z } from 'zod'
import type { ClientCounters } from '../../state/counters.ts'
import { perWindow, windowNames } from '../../config/time.ts'
import type { FixedWindow, PerWindow, WindowName } from '../../config/time.ts'
import { endsAtSeconds } from '../../core/rules/ban-policy.ts'
import type { BanRecord } from '../../state/bans.ts'
import { acted, iso, Refused, seen } from '../answers.ts'
import { CLIENTS_FORM, clientsQuery, findClient, pageOf, type ShownClient } from './pages.ts'
import { change, checked, look, readJson, type ApiNeeds, type Call } from '../operation.ts'

const AWAY = 'the store is away: what clients have used is not known'

const resetBody = z.strictObject({ window: z.enum([...windowNames, 'both'], 'is none of these') })
const [first, ...others] = windowNames.map((name) => `"${name}"`)
const RESET_FORM = `Send {"window":${first}}, ${others.join(', ')} or "both".`

export const clientOperations = [
  look('/api/clients', clientsPage),
  look('/api/clients/{id}', clientDetail),
  change('POST', 'resetUsage')('/api/clients/{id}/reset', resetUse),
]

/** GET /api/clients, 50 at a time. All orders but `id` follow what this gateway has seen, and `nearest` on a page the store; the numbers are the store's. cursor: of the next page; null: this is the last. */
export type ClientsPage = Awaited<ReturnType<typeof clientsPage>>

async function clientsPage(needs: ApiNeeds, { query }: Call) {
  const asked = checked(query, clientsQuery, CLIENTS_FORM)
  const { clients, ...page } = await pageOf(needs.reloads.config, needs.live.clients, asked)
  const { rows, head } = await rowsOf(needs, clients)
  // Who is refused comes first; the store's figures are newer than the order, which is of what this gateway has seen.
  if (asked.sort === 'nearest') rows.sort((one, other) => nearness(other) - nearness(one))
  return { ...head, ...page, sort: asked.sort, clients: rows }
}

const nearness = ({ share, state }: ClientRow): number =>
  (share ?? 0) + (state?.state === 'free' ? 0 : 1_000_000)

/** GET /api/clients/ID. recentRefusals: by this gateway, newest first. */
export type ClientDetail = Awaited<ReturnType<typeof clientDetail>>

type OneClient = Call<{ readonly id: string }>

async function clientDetail(needs: ApiNeeds, { params: { id } }: OneClient) {
  const client = knownClient(needs, id)
  const [{ rows, head }, { requests, missing }] = await Promise.all([
    rowsOf(needs, [client]),
    needs.recentRequests({ client: id, refused: true, id: undefined }),
  ])
  const [row] = rows
  if (row === undefined) throw new Refused('unknown_client')
  const whole = seen(head.scope, [...(head.missing ?? []), ...missing])
  return { ...whole, client: row, recentRefusals: requests }
}

/** POST /api/clients/ID/reset {"window":"NAME"}, or "both": all of them. */
export type ResetDone = Awaited<ReturnType<typeof resetUse>>

async function resetUse(needs: ApiNeeds, { params: { id }, audit, request }: OneClient) {
  const { window } = checked(await readJson(request), resetBody, RESET_FORM)
  const client = knownClient(needs, id)
  Object.assign(audit, { client: id, window })
  const windows = window === 'both' ? windowNames : [window]
  const done = await acted(needs.counters.reset(client, windows))
  needs.live.clients.forgetUse(id, windows)
  const what = { before: usedOf(done.before), after: usedOf(done.after) }
  Object.assign(audit, what)
  return { ...seen('store'), client: id, window, ...what }
}

function knownClient({ reloads, live }: ApiNeeds, id: string): ShownClient {
  const client = findClient(reloads.config, live.clients, id)
  if (client === undefined) throw new Refused('unknown_client')
  return client
}

const usedOf = (counters: ClientCounters) => perWindow(({ name }) => counters[name].used)

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

export interface ClientKey {
  readonly id: string
  readonly expires: string | null
  /** Last use at this gateway; null: none since it started. */
  readonly lastUsed: string | null
  readonly bannedUntil: string | null
}

export type ClientRow = ReturnType<typeof rowOf>

function rowOf(
  { live }: ApiNeeds,
  { id, plan, limits, keys: configured }: ShownClient,
  counters: ClientCounters | undefined,
  banned: ReadonlyMap<string, BanRecord>,
) {
  const keys = configured.map((key): ClientKey => ({
    id: key.id,
    expires: iso(key.expiresAtMs),
    lastUsed: iso(live.clients.lastUsedMs(key.id)),
    bannedUntil: iso(endOf(banned.get(key.id))),
  }))
  const uses = counters && perWindow((window) => useOf(counters, limits, window))
  return {
    id,
    plan,
    limits,
    /** null, here and below: the store is away. */
    ...perWindow(({ name }) => uses?.[name] ?? null),
    /** The largest used / limit of the windows: 0 to 1, or more after a limit was lowered. */
    share: uses ? Math.max(...Object.values(uses).map(({ used, limit }) => used / limit)) : null,
    /** Refusals by this gateway for quota or a ban in the last five minutes. */
    refusedLately: live.clients.get(id, Math.floor(Date.now() / 1000))?.refusedLately ?? 0,
    state: uses ? stateOf(uses, keys) : null,
    keys,
  }
}

const endOf = (ban: BanRecord | undefined): number | undefined => ban && 1000 * endsAtSeconds(ban)

/** A current window in the store. */
export type WindowUse = ReturnType<typeof useOf>

function useOf(counters: ClientCounters, limits: ShownClient['limits'], window: FixedWindow) {
  const { index, taken, used } = counters[window.name]
  return {
    used,
    /** Tokens handed to processes and not counted in `used`; some may be spent already. */
    leased: Math.max(0, taken - used),
    limit: limits[window.limit],
    resetsAt: iso((index + 1) * window.lengthMs),
  }
}

type ClientState =
  | { readonly state: 'free' }
  /** A window is used up. */
  | { readonly state: 'limited'; readonly by: WindowName; readonly until: string }
  /** All keys that have not expired are banned. */
  | { readonly state: 'banned'; readonly until: string }

function stateOf(uses: PerWindow<WindowUse>, keys: readonly ClientKey[]): ClientState {
  const valid = keys.filter(({ expires }) => expires === null || Date.parse(expires) > Date.now())
  const bans = valid.flatMap(({ bannedUntil }) => bannedUntil ?? [])
  const [until] = bans.toSorted()
  if (until !== undefined && bans.length === valid.length) return { state: 'banned', until }
  // Of several the longest counts, as its wait is longer.
  const by = windowNames.findLast((name) => uses[name].used >= uses[name].limit)
  return by ? { state: 'limited', by, until: uses[by].resetsAt } : { state: 'free' }
}
