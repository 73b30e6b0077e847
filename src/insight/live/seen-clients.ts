/** Clients as this gateway has seen them: use of their windows, recent refusals, and the last use of each key. Time is an argument, in Unix seconds. */
import { useIn, type TallyRow, type SeenUse } from '../../core/record/tally.ts'
import { RecentRefusals } from './recent-refusals.ts'
import type { Config } from '../../config/config.ts'

/** Returns the current plan, as a reload may have moved or removed the client; undefined: the client is gone. seen: its last plan, which a token may have named. */
export type PlanOf = (client: string, seen: string) => string | undefined

export const planInForce =
  ({ clients, plans, jwt }: Pick<Config, 'clients' | 'plans' | 'jwt'>): PlanOf =>
  (client, seen) =>
    clients.planOf(client) ?? (jwt && plans.get(seen)?.limits ? seen : undefined)

/** The clients and keys seen last are kept. */
const KEPT_CLIENTS = 100_000
const KEPT_KEYS = 200_000
const DAY_SECONDS = 86_400

/** Use of a window, and the second in which it was seen. */
interface SeenAt extends SeenUse {
  readonly at: number
}

interface Entry {
  readonly client: string
  plan: string
  minute: SeenAt | undefined
  day: SeenAt | undefined
  /** undefined: it was never refused for quota or a ban. */
  refusals: RecentRefusals | undefined
}

export interface SeenClient {
  readonly client: string
  readonly plan: string
  /** null: not seen yet. used is 0 once another window has begun. */
  readonly minute: SeenUse | null
  readonly day: SeenUse | null
  /** The larger of both windows' used / limit; 0 where none is known. */
  readonly share: number
  /** Refusals for quota or a ban in the last five minutes. */
  readonly refusedLately: number
}

export type SeenSort = 'nearest' | 'used' | 'refused'

export interface SeenQuery {
  readonly sort: SeenSort
  readonly plan?: string | undefined
  /** Part of the id. */
  readonly q?: string | undefined
  /** Id of the client that has the key q; it is found, too. */
  readonly owner?: string | undefined
  /** Cursor of the page before. */
  readonly cursor?: string | undefined
  readonly limit: number
}

export interface SeenPage {
  readonly clients: readonly SeenClient[]
  /** undefined: this is the last. */
  readonly cursor: string | undefined
}

/** A client that is being refused. */
export interface RefusedClient {
  readonly client: string
  readonly plan: string
  readonly refusals: RecentRefusals
}

export class SeenClients {
  /** Clients in the order in which they were seen last. */
  readonly #clients = new Map<string, Entry>()
  readonly #lastUsedMs = new Map<string, number>()
  /** Clients that may be refused now. */
  readonly #refused = new Set<Entry>()

  add(at: number, rows: readonly TallyRow[]): void {
    for (const row of rows) this.#add(at, row)
    for (const entry of this.#refused)
      if (entry.refusals?.isNow(at) !== true) this.#refused.delete(entry)
    dropFirst(this.#clients, KEPT_CLIENTS)
    dropFirst(this.#lastUsedMs, KEPT_KEYS)
  }

  /** Forgets the use of windows that were reset. */
  forgetUse(client: string, window: 'minute' | 'day' | 'both'): void {
    const entry = this.#clients.get(client)
    if (entry === undefined) return
    if (window !== 'day') entry.minute = undefined
    if (window !== 'minute') entry.day = undefined
  }

  /** Unix time in ms of the key's last known use; undefined: none. */
  lastUsedMs(keyId: string): number | undefined {
    return this.#lastUsedMs.get(keyId)
  }

  get(client: string, now: number): SeenClient | undefined {
    const entry = this.#clients.get(client)
    return entry && seenOf(entry, now)
  }

  /** A page in the requested order, then by id; one pass over all clients, whichever page it is. */
  page(query: SeenQuery, now: number, planOf: PlanOf): SeenPage {
    const { sort, plan, q, owner, cursor, limit } = query
    const order = orders[sort]
    const after = cursor === undefined ? undefined : placeOf(cursor)
    const found: Placed[] = []
    for (const entry of this.#clients.values()) {
      const value = order(entry, now)
      const last = found.length > limit ? found[limit] : undefined
      if (last !== undefined && value < last.value) continue
      if (q !== undefined && entry.client !== owner && !entry.client.includes(q)) continue
      const placed = { value, client: entry.client, entry }
      if (after !== undefined && !isBefore(after, placed)) continue
      const current = planOf(entry.client, entry.plan)
      if (current === undefined || (plan ?? current) !== current) continue
      found.splice(found.findLastIndex((one) => isBefore(one, placed)) + 1, 0, placed)
      if (found.length > limit + 1) found.pop()
    }
    const page = found.slice(0, limit)
    const last = found.length > limit ? page.at(-1) : undefined
    return {
      clients: page.map(({ entry }) => seenOf(entry, now)),
      cursor: last && `${last.value}:${last.client}`,
    }
  }

  /** Clients that are being refused, the highest rate first. */
  refusedNow(now: number, planOf: PlanOf): RefusedClient[] {
    const refused = [...this.#refused].flatMap(({ client, plan: seen, refusals }) => {
      const plan = refusals?.isNow(now) === true ? planOf(client, seen) : undefined
      return refusals && plan !== undefined ? [{ client, plan, refusals }] : []
    })
    const rate = ({ refusals }: RefusedClient): number => refusals.perSecond(now)
    return refused.sort((one, other) => rate(other) - rate(one))
  }

  /** Counts clients of each plan that have used more than this share of a window; tokens handed to other processes count as used. */
  countAbove(share: number, now: number, planOf: PlanOf): Map<string, number> {
    const counts = new Map<string, number>()
    for (const entry of this.#clients.values()) {
      const plan = shareOf(entry, now) > share ? planOf(entry.client, entry.plan) : undefined
      if (plan !== undefined) counts.set(plan, (counts.get(plan) ?? 0) + 1)
    }
    return counts
  }

  #add(at: number, row: TallyRow): void {
    const { client, key, plan, lastUsedMs } = row
    const entry = this.#clients.get(client) ?? {
      client,
      plan,
      minute: undefined,
      day: undefined,
      refusals: undefined,
    }
    this.#clients.delete(client)
    this.#clients.set(client, entry)
    entry.plan = plan
    entry.minute = latest(entry.minute, useIn(row, 'minute'), at, 60)
    entry.day = latest(entry.day, useIn(row, 'day'), at, DAY_SECONDS)
    if (row.refusedMinute + row.refusedDay + row.refusedBan > 0) {
      entry.refusals ??= new RecentRefusals()
      entry.refusals.add(at, row)
      this.#refused.add(entry)
    }
    this.#lastUsedMs.set(key, Math.max(this.#lastUsedMs.get(key) ?? 0, lastUsedMs))
  }
}

/** The later view of a window; within one second, that of the process that knows of more use. */
function latest(
  before: SeenAt | undefined,
  seen: SeenUse | undefined,
  at: number,
  windowSeconds: number,
): SeenAt | undefined {
  if (seen === undefined) return before
  const isOlder = before !== undefined && isIn(before, at, windowSeconds) && before.at === at
  if (isOlder && before.used > seen.used) return before
  return { ...seen, at }
}

const isIn = (seen: SeenAt, now: number, windowSeconds: number): boolean =>
  Math.floor(seen.at / windowSeconds) === Math.floor(now / windowSeconds)

const usedOf = (seen: SeenAt | undefined, now: number, windowSeconds: number): number =>
  seen !== undefined && isIn(seen, now, windowSeconds) ? seen.used : 0

function shareOf({ minute, day }: Entry, now: number): number {
  return Math.max(
    usedOf(minute, now, 60) / (minute?.limit || Infinity),
    usedOf(day, now, DAY_SECONDS) / (day?.limit || Infinity),
  )
}

const refusedOf = ({ refusals }: Entry, now: number): number => refusals?.count(now) ?? 0

const orders: Readonly<Record<SeenSort, (entry: Entry, now: number) => number>> = {
  nearest: shareOf,
  used: ({ day }, now) => usedOf(day, now, DAY_SECONDS),
  refused: refusedOf,
}

const useOf = (seen: SeenAt | undefined, now: number, windowSeconds: number): SeenUse | null =>
  seen === undefined ? null : { used: usedOf(seen, now, windowSeconds), limit: seen.limit }

const seenOf = (entry: Entry, now: number): SeenClient => ({
  client: entry.client,
  plan: entry.plan,
  minute: useOf(entry.minute, now, 60),
  day: useOf(entry.day, now, DAY_SECONDS),
  share: shareOf(entry, now),
  refusedLately: refusedOf(entry, now),
})

interface Place {
  readonly value: number
  readonly client: string
}

interface Placed extends Place {
  readonly entry: Entry
}

function placeOf(cursor: string): Place | undefined {
  const [value = ''] = cursor.split(':', 1)
  return { value: Number(value), client: cursor.slice(value.length + 1) }
}

const isBefore = (one: Place, other: Place): boolean =>
  one.value > other.value || (one.value === other.value && one.client < other.client)

function dropFirst(table: Map<string, unknown>, kept: number): void {
  for (const key of table.keys()) {
    if (table.size <= kept) return
    table.delete(key)
  }
}
