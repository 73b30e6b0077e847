/** Counts whom shadow limits (limits that are only tried) would have refused today, by plan and client. Time is an argument. */
import type { PlanConfig } from '../../config/config.ts'
import { DAY_MS, type WindowName } from '../../config/time.ts'

/** Clients kept for a day; those that come later count for their plan alone. */
const KEPT_CLIENTS = 100_000

/** The result for one request. */
export interface Judgement {
  /** degraded: the request could not be judged. */
  readonly shadow: 'admitted' | WindowName | 'degraded'
  /** The window whose live limit refused the request. */
  readonly live: WindowName | undefined
}

const columns = [
  'requests',
  'degraded',
  'refusedMinute',
  'refusedDay',
  'liveMinute',
  'liveDay',
] as const

/** The counts of a plan or of one client. */
export class ShadowCount {
  requests = 0
  degraded = 0
  refusedMinute = 0
  refusedDay = 0
  liveMinute = 0
  liveDay = 0
  /** Unix time in ms of the first refusal; Infinity: there was none. */
  firstMs = Infinity

  get refused(): number {
    return this.refusedMinute + this.refusedDay
  }

  note({ shadow, live }: Judgement, nowMs: number): void {
    this.requests += 1
    if (live === 'minute') this.liveMinute += 1
    else if (live === 'day') this.liveDay += 1
    if (shadow === 'degraded') this.degraded += 1
    else if (shadow === 'minute') this.refusedMinute += 1
    else if (shadow === 'day') this.refusedDay += 1
    if (this.refused > 0) this.firstMs = Math.min(this.firstMs, nowMs)
  }

  /** Adds the numbers that `pack` has written, beginning at `from`. */
  add(numbers: Float64Array, from: number): void {
    for (const [at, column] of columns.entries()) this[column] += numbers[from + at] ?? 0
    this.firstMs = Math.min(this.firstMs, numbers[from + columns.length] ?? Infinity)
  }

  pack(numbers: Float64Array, from: number): void {
    for (const [at, column] of columns.entries()) numbers[from + at] = this[column]
    numbers[from + columns.length] = this.firstMs
  }
}

const WIDTH = columns.length + 1

/** The counts of one process, second and plan: first the plan's sum, then each client's. Plain data. */
export interface ShadowSecond {
  readonly plan: string
  readonly clients: readonly string[]
  readonly numbers: Float64Array
}

interface Plan {
  readonly sum: ShadowCount
  readonly clients: Map<string, ShadowCount>
}

/** Each serving process takes its counts every second; their sum over all processes is kept for the day. */
export class ShadowCounts {
  readonly #plans = new Map<string, Plan>()
  /** Number of clients over all plans. */
  #kept = 0
  /** Unix time in ms at which counting began. Written by #begin. */
  #sinceMs: number
  #config: ReadonlyMap<string, PlanConfig> | undefined

  constructor(nowMs = Date.now()) {
    this.#sinceMs = nowMs
  }

  note(client: string, plan: string, judged: Judgement, nowMs: number): void {
    const known = this.#plan(plan)
    known.sum.note(judged, nowMs)
    this.#client(known, client)?.note(judged, nowMs)
  }

  /** Removes and returns the counts since the last call; undefined: there were none. */
  take(): readonly ShadowSecond[] | undefined {
    if (this.#plans.size === 0) return undefined
    const taken = Array.from(this.#plans, ([plan, { sum, clients }]) => {
      const numbers = new Float64Array(WIDTH * (clients.size + 1))
      let from = 0
      for (const count of [sum, ...clients.values()]) {
        count.pack(numbers, from)
        from += WIDTH
      }
      return { plan, clients: [...clients.keys()], numbers }
    })
    this.#forget()
    return taken
  }

  /** atMs: Unix time in ms of the judgement. */
  add(seconds: readonly ShadowSecond[], atMs: number): void {
    this.#beginDay(atMs)
    if (atMs < dayOf(this.#sinceMs)) return
    for (const { plan: name, clients, numbers } of seconds) {
      const plan = this.#plan(name)
      plan.sum.add(numbers, 0)
      for (const [at, client] of clients.entries())
        this.#client(plan, client)?.add(numbers, WIDTH * (at + 1))
    }
  }

  /** Begins anew where the shadow limits have changed. */
  use(plans: ReadonlyMap<string, PlanConfig>, nowMs: number): void {
    if (plans === this.#config) return
    const before = this.#config
    this.#config = plans
    if (before !== undefined && triedIn(before) !== triedIn(plans)) this.#begin(nowMs)
  }

  sinceMs(nowMs: number): number {
    this.#beginDay(nowMs)
    return this.#sinceMs
  }

  plan(name: string, nowMs: number): ShadowCount {
    this.#beginDay(nowMs)
    return this.#plans.get(name)?.sum ?? new ShadowCount()
  }

  /** Returns the clients with most refusals over all plans, and how many clients of each plan have one. */
  refused(atMost: number, nowMs: number) {
    this.#beginDay(nowMs)
    const worst: { readonly client: string; readonly plan: string; readonly count: ShadowCount }[] =
      []
    const byPlan = new Map<string, number>()
    for (const [plan, { clients }] of this.#plans)
      for (const [client, count] of clients) {
        if (count.refused === 0) continue
        byPlan.set(plan, (byPlan.get(plan) ?? 0) + 1)
        const least = worst.length < atMost ? 0 : (worst.at(-1)?.count.refused ?? Infinity)
        if (count.refused <= least) continue
        const index = worst.findLastIndex((other) => other.count.refused >= count.refused)
        worst.splice(index + 1, 0, { client, plan, count })
        if (worst.length > atMost) worst.pop()
      }
    return { worst, byPlan }
  }

  #plan(name: string): Plan {
    let plan = this.#plans.get(name)
    if (plan === undefined)
      this.#plans.set(name, (plan = { sum: new ShadowCount(), clients: new Map() }))
    return plan
  }

  /** undefined: there is no room. */
  #client({ clients }: Plan, client: string): ShadowCount | undefined {
    let count = clients.get(client)
    if (count === undefined && this.#kept < KEPT_CLIENTS) {
      this.#kept += 1
      clients.set(client, (count = new ShadowCount()))
    }
    return count
  }

  /** A clock that is put back changes nothing. */
  #beginDay(nowMs: number): void {
    if (dayOf(nowMs) > this.#sinceMs) this.#begin(dayOf(nowMs))
  }

  #begin(atMs: number): void {
    this.#sinceMs = atMs
    this.#forget()
  }

  #forget(): void {
    this.#plans.clear()
    this.#kept = 0
  }
}

const dayOf = (ms: number): number => ms - (ms % DAY_MS)

const triedIn = (plans: ReadonlyMap<string, PlanConfig>): string =>
  JSON.stringify([...plans.values()].flatMap(({ name, shadow }) => (shadow ? [name, shadow] : [])))
