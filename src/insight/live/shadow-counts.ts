/** Sums up whom shadow limits (limits that are only tried) would have refused today, by plan and client. Time is an argument. */
import type { PlanConfig } from '../../config/config.ts'
import { DAY_MS, fieldOf, windowNames } from '../../config/time.ts'
import { zeros } from '../../core/record/metric-registry.ts'
import { addCounts, type TallyRow } from '../../core/record/tally.ts'

/** Clients kept for a day; those that come later count for their plan alone. */
const KEPT_CLIENTS = 100_000

const refusals = windowNames.map((name) => fieldOf('shadow', name))
const liveRefusals = windowNames.map((name) => fieldOf('live', name))
const summed = ['judged', 'unjudged', ...refusals, ...liveRefusals] as const

/** The counts of a plan or of one client. */
export interface ShadowCount extends Record<(typeof summed)[number], number> {
  /** Unix time in ms of the first refusal, to the second; Infinity: there was none. */
  firstMs: number
}

interface ShadowClient {
  readonly client: string
  readonly plan: string
  readonly count: ShadowCount
}

const nothing = (): ShadowCount => ({ ...zeros(summed), firstMs: Infinity })

export const refusedOf = (count: Pick<ShadowCount, (typeof refusals)[number]>): number =>
  refusals.reduce((sum, name) => sum + count[name], 0)

function addTo(sum: ShadowCount, row: TallyRow): void {
  addCounts(summed, sum, row)
  if (refusedOf(row) > 0) sum.firstMs = Math.min(sum.firstMs, row.lastUsedMs)
}

/** The counts of one day, over all processes. */
export class ShadowCounts {
  /** Unix time in ms at which counting began. Written by #begin. */
  sinceMs: number
  readonly #plans = new Map<string, ShadowCount>()
  /** The key is plan and client with a space between them, which no name of a plan contains. */
  readonly #clients = new Map<string, ShadowClient>()
  #config: ReadonlyMap<string, PlanConfig> | undefined

  constructor(nowMs = Date.now()) {
    this.sinceMs = nowMs
  }

  /** Adds a second of one process; atMs: Unix time of that second. */
  add(rows: readonly TallyRow[], atMs: number): void {
    this.#beginDay(atMs)
    if (atMs < dayOf(this.sinceMs)) return
    for (const row of rows) {
      if (row.judged === 0) continue
      const { client, plan } = row
      const sum = this.#plans.get(plan) ?? nothing()
      addTo(sum, row)
      this.#plans.set(plan, sum)
      const key = `${plan} ${client}`
      const known = this.#clients.get(key) ?? { client, plan, count: nothing() }
      addTo(known.count, row)
      if (this.#clients.size < KEPT_CLIENTS) this.#clients.set(key, known)
    }
  }

  /** Begins anew with a day, and where the shadow limits have changed. */
  use(plans: ReadonlyMap<string, PlanConfig>, nowMs: number): void {
    this.#beginDay(nowMs)
    if (plans === this.#config) return
    const before = this.#config
    this.#config = plans
    if (before !== undefined && triedIn(before) !== triedIn(plans)) this.#begin(nowMs)
  }

  plan(name: string): ShadowCount {
    return this.#plans.get(name) ?? nothing()
  }

  /** Returns the clients with most refusals over all plans, and how many clients of each plan have one. */
  refused(atMost: number) {
    const worst: ShadowClient[] = []
    const byPlan = new Map<string, number>()
    for (const one of this.#clients.values()) {
      const refused = refusedOf(one.count)
      if (refused === 0) continue
      byPlan.set(one.plan, (byPlan.get(one.plan) ?? 0) + 1)
      const place = worst.findLastIndex((other) => refusedOf(other.count) >= refused) + 1
      if (place === atMost) continue
      worst.splice(place, 0, one)
      if (worst.length > atMost) worst.pop()
    }
    return { worst, byPlan }
  }

  /** A clock that is put back changes nothing. */
  #beginDay(nowMs: number): void {
    if (dayOf(nowMs) > this.sinceMs) this.#begin(dayOf(nowMs))
  }

  #begin(atMs: number): void {
    this.sinceMs = atMs
    this.#plans.clear()
    this.#clients.clear()
  }
}

const dayOf = (ms: number): number => ms - (ms % DAY_MS)

const triedIn = (plans: ReadonlyMap<string, PlanConfig>): string =>
  JSON.stringify([...plans.values()].flatMap(({ name, shadow }) => (shadow ? [name, shadow] : [])))
