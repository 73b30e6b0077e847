/** Sums up whom shadow limits (limits that are only tried) would have refused today, by plan and client. Time is an argument. */
import type { PlanConfig } from '../../config/config.ts'
import { DAY_MS } from '../../config/time.ts'
import { zeros } from './metric-registry.ts'
import { addCounts, type TallyRow } from './tally.ts'

/** Clients kept for a day; those that come later count for their plan alone. */
const KEPT_CLIENTS = 100_000

const summed = ['judged', 'unjudged', 'shadowMinute', 'shadowDay', 'liveMinute', 'liveDay'] as const

/** The counts of a plan or of one client. */
export interface ShadowCount extends Record<(typeof summed)[number], number> {
  /** Unix time in ms of the first refusal, to the second; Infinity: there was none. */
  firstMs: number
}

const nothing = (): ShadowCount => ({ ...zeros(summed), firstMs: Infinity })

export const refusedOf = ({
  shadowMinute,
  shadowDay,
}: Pick<ShadowCount, 'shadowMinute' | 'shadowDay'>) => shadowMinute + shadowDay

function addTo(sum: ShadowCount, row: TallyRow): void {
  addCounts(summed, sum, row)
  if (refusedOf(row) > 0) sum.firstMs = Math.min(sum.firstMs, row.lastUsedMs)
}

interface Plan {
  readonly sum: ShadowCount
  readonly clients: Map<string, ShadowCount>
}

/** The counts of one day, over all processes. */
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

  /** Adds a second of one process; atMs: Unix time of that second. */
  add(rows: readonly TallyRow[], atMs: number): void {
    this.#beginDay(atMs)
    if (atMs < dayOf(this.#sinceMs)) return
    for (const row of rows) {
      if (row.judged === 0) continue
      const plan = this.#plan(row.plan)
      addTo(plan.sum, row)
      const client = this.#client(plan, row.client)
      if (client !== undefined) addTo(client, row)
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
    return this.#plans.get(name)?.sum ?? nothing()
  }

  /** Returns the clients with most refusals over all plans, and how many clients of each plan have one. */
  refused(atMost: number, nowMs: number) {
    this.#beginDay(nowMs)
    const worst: { readonly client: string; readonly plan: string; readonly count: ShadowCount }[] =
      []
    const byPlan = new Map<string, number>()
    for (const [plan, { clients }] of this.#plans)
      for (const [client, count] of clients) {
        const refused = refusedOf(count)
        if (refused === 0) continue
        byPlan.set(plan, (byPlan.get(plan) ?? 0) + 1)
        const last = worst.at(-1)
        if (worst.length >= atMost && (last === undefined || refused <= refusedOf(last.count)))
          continue
        const index = worst.findLastIndex((other) => refusedOf(other.count) >= refused)
        worst.splice(index + 1, 0, { client, plan, count })
        if (worst.length > atMost) worst.pop()
      }
    return { worst, byPlan }
  }

  #plan(name: string): Plan {
    let plan = this.#plans.get(name)
    if (plan === undefined) this.#plans.set(name, (plan = { sum: nothing(), clients: new Map() }))
    return plan
  }

  /** undefined: there is no room. */
  #client({ clients }: Plan, client: string): ShadowCount | undefined {
    let count = clients.get(client)
    if (count === undefined && this.#kept < KEPT_CLIENTS) {
      this.#kept += 1
      clients.set(client, (count = nothing()))
    }
    return count
  }

  /** A clock that is put back changes nothing. */
  #beginDay(nowMs: number): void {
    if (dayOf(nowMs) > this.#sinceMs) this.#begin(dayOf(nowMs))
  }

  #begin(atMs: number): void {
    this.#sinceMs = atMs
    this.#plans.clear()
    this.#kept = 0
  }
}

const dayOf = (ms: number): number => ms - (ms % DAY_MS)

const triedIn = (plans: ReadonlyMap<string, PlanConfig>): string =>
  JSON.stringify([...plans.values()].flatMap(({ name, shadow }) => (shadow ? [name, shadow] : [])))
