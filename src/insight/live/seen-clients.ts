/** What this gateway has seen of clients: where they stand in their windows, how often they were refused lately, when each key was used last. Time is an argument, in Unix seconds. */
import type { TallyRow, SeenUse } from '../../core/record/tally.ts'
import { Lately } from './lately.ts'
import type { PlanOf } from './plan-in-force.ts'

/** Those seen last; of the keys those that came last. */
const KEPT_CLIENTS = 100_000
const KEPT_KEYS = 200_000
const DAY_SECONDS = 86_400

/** Of a window, and when it was seen. */
interface SeenAt extends SeenUse {
  readonly at: number
}

interface Entry {
  readonly client: string
  plan: string
  minute: SeenAt | undefined
  day: SeenAt | undefined
  /** undefined: it was never refused for quota or a ban. */
  lately: Lately | undefined
}

export interface SeenClient {
  readonly client: string
  readonly plan: string
  /** null: not seen yet, or another window has begun since: then nothing is used of it but what nobody has seen. */
  readonly minute: SeenUse | null
  readonly day: SeenUse | null
  /** The larger of both windows' used / limit; 0 where none is known. */
  readonly share: number
  /** For quota or a ban in the latest five minutes. */
  readonly refusedLately: number
}

export type SeenSort = 'nearest' | 'used' | 'refused'

export interface SeenQuery {
  readonly sort: SeenSort
  readonly plan?: string | undefined
  /** Part of the id. */
  readonly q?: string | undefined
  /** The client that has a key of just this id. */
  readonly owner?: string | undefined
  /** Of the page before. */
  readonly cursor?: string | undefined
  readonly limit: number
}

export interface SeenPage {
  readonly clients: readonly SeenClient[]
  /** undefined: this is the last. */
  readonly cursor: string | undefined
}

/** Refused now. */
export interface RefusedClient {
  readonly client: string
  readonly plan: string
  readonly lately: Lately
}

export class SeenClients {
  /** In the order in which they were seen last. */
  readonly #clients = new Map<string, Entry>()
  readonly #lastUsedMs = new Map<string, number>()
  /** Those that may be refused now. */
  readonly #refused = new Set<Entry>()

  add(at: number, rows: readonly TallyRow[]): void {
    for (const row of rows) this.#add(at, row)
    for (const entry of this.#refused)
      if (entry.lately?.isNow(at) !== true) this.#refused.delete(entry)
    dropFirst(this.#clients, KEPT_CLIENTS)
    dropFirst(this.#lastUsedMs, KEPT_KEYS)
  }

  /** Its usage was set back. */
  forgetUse(client: string, window: 'minute' | 'day' | 'both'): void {
    const entry = this.#clients.get(client)
    if (entry === undefined) return
    if (window !== 'day') entry.minute = undefined
    if (window !== 'minute') entry.day = undefined
  }

  /** Unix time in ms; undefined: it was not used, as far as is known. */
  lastUsedMs(keyId: string): number | undefined {
    return this.#lastUsedMs.get(keyId)
  }

  get(client: string, now: number): SeenClient | undefined {
    const entry = this.#clients.get(client)
    return entry && seenOf(entry, now)
  }

  /** In the order that is asked for, then by id. One pass over all, however far the page is. */
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
      insert(found, placed)
      if (found.length > limit + 1) found.pop()
    }
    const page = found.slice(0, limit)
    const last = found.length > limit ? page.at(-1) : undefined
    return {
      clients: page.map(({ entry }) => seenOf(entry, now)),
      cursor: last && `${last.value}:${last.client}`,
    }
  }

  /** Those most often refused first. */
  refusedNow(now: number, planOf: PlanOf): RefusedClient[] {
    const refused = [...this.#refused].flatMap(({ client, plan: seen, lately }) => {
      const plan = lately?.isNow(now) === true ? planOf(client, seen) : undefined
      return lately && plan !== undefined ? [{ client, plan, lately }] : []
    })
    const rate = ({ lately }: RefusedClient): number => lately.perSecond(now)
    return refused.sort((one, other) => rate(other) - rate(one))
  }

  /** By plan, how many have used more than such a share of a window; what other processes were handed counts. */
  countAbove(share: number, now: number, planOf: PlanOf): Map<string, number> {
    const counts = new Map<string, number>()
    for (const entry of this.#clients.values()) {
      const plan = shareOf(entry, now) > share ? planOf(entry.client, entry.plan) : undefined
      if (plan !== undefined) counts.set(plan, (counts.get(plan) ?? 0) + 1)
    }
    return counts
  }

  #add(at: number, row: TallyRow): void {
    const { client, key, plan, minute, day, lastUsedMs } = row
    const entry = this.#clients.get(client) ?? {
      client,
      plan,
      minute: undefined,
      day: undefined,
      lately: undefined,
    }
    this.#clients.delete(client)
    this.#clients.set(client, entry)
    entry.plan = plan
    entry.minute = latest(entry.minute, minute, at, 60)
    entry.day = latest(entry.day, day, at, DAY_SECONDS)
    if (row.refusedMinute + row.refusedDay + row.refusedBan > 0) {
      entry.lately ??= new Lately()
      entry.lately.add(at, row)
      this.#refused.add(entry)
    }
    this.#lastUsedMs.set(key, Math.max(this.#lastUsedMs.get(key) ?? 0, lastUsedMs))
  }
}

/** Of several processes' views within one second the one that knows of most. */
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

const refusedOf = ({ lately }: Entry, now: number): number => lately?.count(now) ?? 0

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

/** undefined: it is none of ours. */
function placeOf(cursor: string): Place | undefined {
  const [value = ''] = cursor.split(':', 1)
  return { value: Number(value), client: cursor.slice(value.length + 1) }
}

const isBefore = (one: Place, other: Place): boolean =>
  one.value > other.value || (one.value === other.value && one.client < other.client)

function insert(found: Placed[], placed: Placed): void {
  let from = 0
  let to = found.length
  while (from < to) {
    const middle = (from + to) >> 1
    const there = found[middle]
    if (there !== undefined && isBefore(there, placed)) from = middle + 1
    else to = middle
  }
  found.splice(from, 0, placed)
}

function dropFirst(table: Map<string, unknown>, kept: number): void {
  for (const key of table.keys()) {
    if (table.size <= kept) return
    table.delete(key)
  }
}
