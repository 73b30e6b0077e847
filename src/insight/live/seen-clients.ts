/** Clients as this gateway has seen them: use of their windows, recent refusals, and the last use of each key. Time is an argument, in Unix seconds. */
import { useIn, type TallyRow, type SeenUse } from '../../core/record/tally.ts'
import type { Config } from '../../config/config.ts'
import { fieldOf, perWindow, windowNames, type WindowName } from '../../config/time.ts'
import { refusers } from '../format.js'

/** Returns the current plan, as a reload may have moved or removed the client; undefined: the client is gone. seen: its last plan, which a token may have named. */
type PlanOf = (client: string, seen: string) => string | undefined

export const planInForce =
  ({ clients, plans, jwt }: Pick<Config, 'clients' | 'plans' | 'jwt'>): PlanOf =>
  (client, seen) =>
    clients.planOf(client) ?? (jwt && plans.get(seen)?.limits ? seen : undefined)

/** The clients and keys seen last are kept. */
const KEPT_CLIENTS = 100_000
const KEPT_KEYS = 200_000

/** Use of a window, and the second in which it was seen. */
interface SeenAt extends SeenUse {
  readonly at: number
}

interface Entry extends Partial<Record<WindowName, SeenAt | undefined>> {
  readonly client: string
  plan: string
  /** undefined: it was never refused for quota or a ban. */
  refusals?: RecentRefusals | undefined
}

/** nearest: to the end of a window's limit. */
type SeenSort = 'nearest' | 'used' | 'refused'

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

export class SeenClients {
  /** Clients in the order in which they were seen last. */
  readonly #clients = new Map<string, Entry>()
  readonly #lastUsedMs = new Map<string, number>()
  /** Clients that were refused in the latest seconds. */
  readonly #refused = new Set<Entry>()

  add(at: number, rows: readonly TallyRow[]): void {
    for (const row of rows) this.#add(at, row)
    for (const entry of this.#refused)
      if (entry.refusals?.isNow(at) !== true) this.#refused.delete(entry)
    dropFirst(this.#clients, KEPT_CLIENTS)
    dropFirst(this.#lastUsedMs, KEPT_KEYS)
  }

  /** Forgets the use of windows that were reset. */
  forgetUse(client: string, windows: readonly WindowName[]): void {
    const entry = this.#clients.get(client)
    if (entry !== undefined) for (const name of windows) entry[name] = undefined
  }

  /** Unix time in ms of the key's last known use; undefined: none. */
  lastUsedMs(keyId: string): number | undefined {
    return this.#lastUsedMs.get(keyId)
  }

  /** refusedLately: refusals for quota or a ban in the last five minutes. undefined: the client was not seen. */
  get(client: string, now: number) {
    const entry = this.#clients.get(client)
    if (entry === undefined) return undefined
    const uses = perWindow(({ name }) => useOf(entry, name, now))
    return { plan: entry.plan, ...uses, refusedLately: refusedOf(entry, now) }
  }

  /** A page of ids in the requested order, then by id; one pass over all clients, whichever page it is. The last page has no cursor. */
  page(query: SeenQuery, now: number, planOf: PlanOf) {
    const { sort, plan, q, owner, cursor, limit } = query
    const order = orders[sort]
    const after = cursor === undefined ? undefined : placeOf(cursor)
    const found: Place[] = []
    for (const entry of this.#clients.values()) {
      const value = order(entry, now)
      const last = found.length > limit ? found[limit] : undefined
      if (last !== undefined && value < last.value) continue
      if (q !== undefined && entry.client !== owner && !entry.client.includes(q)) continue
      const placed = { value, client: entry.client }
      if (after !== undefined && !isBefore(after, placed)) continue
      const current = planOf(entry.client, entry.plan)
      if (current === undefined || (plan ?? current) !== current) continue
      found.splice(found.findLastIndex((one) => isBefore(one, placed)) + 1, 0, placed)
      if (found.length > limit + 1) found.pop()
    }
    const page = found.slice(0, limit)
    const last = found.length > limit ? page.at(-1) : undefined
    return {
      clients: page.map(({ client }) => client),
      cursor: last && `${last.value}:${last.client}`,
    }
  }

  /** Clients that are being refused, the highest rate first. */
  refusedNow(now: number, planOf: PlanOf) {
    const refused = [...this.#refused].flatMap(({ client, plan: seen, refusals }) => {
      const plan = refusals?.isNow(now) === true ? planOf(client, seen) : undefined
      return refusals && plan !== undefined ? [{ client, plan, refusals }] : []
    })
    return refused.sort((one, other) => other.refusals.perSecond(now) - one.refusals.perSecond(now))
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
    const entry: Entry = this.#clients.get(client) ?? { client, plan }
    this.#clients.delete(client)
    this.#clients.set(client, entry)
    entry.plan = plan
    for (const name of windowNames) entry[name] = latest(entry[name], useIn(row, name), at)
    if (refusalsOf(row) > 0) {
      entry.refusals ??= new RecentRefusals()
      entry.refusals.add(at, row)
      this.#refused.add(entry)
    }
    const before = this.#lastUsedMs.get(key) ?? 0
    this.#lastUsedMs.delete(key)
    this.#lastUsedMs.set(key, Math.max(before, lastUsedMs))
  }
}

/** The later view of a window; within one second, that of the process that knows of more use. */
function latest(before: SeenAt | undefined, seen: SeenUse | undefined, at: number) {
  if (seen === undefined || (before?.at === at && before.used > seen.used)) return before
  return { ...seen, at }
}

const SECONDS = perWindow(({ lengthMs }) => lengthMs / 1000)

/** Use of the window that is open now. */
function usedOf(entry: Entry, window: WindowName, now: number): number {
  const seen = entry[window]
  const seconds = SECONDS[window]
  const isOpen = seen && Math.floor(seen.at / seconds) === Math.floor(now / seconds)
  return isOpen ? seen.used : 0
}

/** The largest of all windows' used / limit; 0 where none is known. */
function shareOf(entry: Entry, now: number): number {
  let share = 0
  for (const name of windowNames)
    share = Math.max(share, usedOf(entry, name, now) / (entry[name]?.limit || Infinity))
  return share
}

const refusedOf = ({ refusals }: Entry, now: number): number => refusals?.count(now) ?? 0

const orders: Readonly<Record<SeenSort, (entry: Entry, now: number) => number>> = {
  nearest: shareOf,
  used: (entry, now) => usedOf(entry, 'day', now),
  refused: refusedOf,
}

/** null: not seen yet. used is 0 once another window has begun. */
const useOf = (entry: Entry, window: WindowName, now: number): SeenUse | null => {
  const seen = entry[window]
  return seen === undefined ? null : { used: usedOf(entry, window, now), limit: seen.limit }
}

interface Place {
  readonly value: number
  readonly client: string
}

function placeOf(cursor: string): Place {
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

const SLOT_SECONDS = 15
const SLOTS = 20
/** Seconds without a refusal after which a client no longer counts as refused. */
const NOW_SECONDS = 10

/** Counts a client's refusals in the last five minutes, and since when they go on. */
export class RecentRefusals {
  /** Cause in the last second with refusals; if several, the one that lasts longest. Written by add, as are the two below. */
  by: (typeof refusers)[number] = 'minute'
  /** First and last second of the current run of refusals. */
  since = -Infinity
  last = -Infinity
  readonly #slots = new Slots(SLOTS, SLOT_SECONDS)
  /** One slot more than is measured, as the current second has no counts yet. */
  readonly #seconds = new Slots(NOW_SECONDS + 1, 1)

  /** Adds one second of a key of the client. */
  add(at: number, row: TallyRow): void {
    const rank = fields.findLastIndex((field) => row[field] > 0)
    const by = refusers[rank]
    if (by === undefined) return
    if (!this.isNow(at)) this.since = at
    // A second has one row for each key of the client.
    if (at !== this.last || rank > refusers.indexOf(this.by)) this.by = by
    this.last = at
    const count = refusalsOf(row)
    this.#slots.add(at, count)
    this.#seconds.add(at, count)
  }

  count(now: number): number {
    return this.#slots.sum(now)
  }

  perSecond(now: number): number {
    return this.#seconds.sum(now) / NOW_SECONDS
  }

  isNow(now: number): boolean {
    return Math.abs(now - this.last) <= NOW_SECONDS
  }
}

/** The fields that count the refusals by each of the refusers, which stand in the order in which they are over. */
const fields = [...windowNames.map((name) => fieldOf('refused', name)), 'refusedBan'] as const
const refusalsOf = (row: TallyRow): number => fields.reduce((sum, field) => sum + row[field], 0)

/** Counts of the latest `length` slots of `seconds` each. */
class Slots {
  readonly #length: number
  readonly #seconds: number
  /** Rings of the slots' numbers since 1970 and of their counts. */
  readonly #numbers: number[] = []
  readonly #counts: number[] = []

  constructor(length: number, seconds: number) {
    this.#length = length
    this.#seconds = seconds
  }

  add(at: number, count: number): void {
    const number = Math.floor(at / this.#seconds)
    const slot = number % this.#length
    const before = this.#numbers[slot] === number ? (this.#counts[slot] ?? 0) : 0
    this.#numbers[slot] = number
    this.#counts[slot] = before + count
  }

  /** Slots that are later than now were counted before the clock went back. */
  sum(now: number): number {
    const latest = Math.floor(now / this.#seconds)
    return this.#counts.reduce((sum, count, slot) => {
      const age = latest - (this.#numbers[slot] ?? latest)
      return age >= 0 && age < this.#length ? sum + count : sum
    }, 0)
  }
}
