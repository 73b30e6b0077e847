/** What shadow limits, which are only tried, would have refused. */
import type { ShadowCount } from '../../insight/live/shadow-counts.ts'
import { iso, json, seen } from '../answers.ts'
import { look, type ApiNeeds, type Operation } from '../operation.ts'

const LISTED = 200

export const shadowOperations: readonly Operation[] = [
  look('/api/shadow', (needs) => json(200, shadowOf(needs))),
]

/** GET /api/shadow: plans with shadow limits, and the clients that these would have refused, worst first. */
export type Shadow = ReturnType<typeof shadowOf>

function shadowOf({ live: { shadow }, reloads: { config } }: ApiNeeds) {
  shadow.use(config.plans, Date.now())
  const { worst, byPlan } = shadow.refused(LISTED)
  return {
    ...seen('gateway'),
    /** 00:00Z of the day, or a later start of counting: with the gateway, or with a plan's shadow limits. */
    since: iso(shadow.sinceMs),
    plans: [...config.plans.values()].flatMap(({ name: plan, shadow: tried, limits: live }) => {
      if (tried === undefined) return []
      // A day keeps 100,000 clients by name; later ones count only in the plan's other figures.
      const clients = byPlan.get(plan) ?? 0
      const counts = shownCounts(shadow.plan(plan))
      // live: limits in force; null: each client of the plan has its own.
      return [{ plan, limits: tried, live: live ?? null, clients, ...counts }]
    }),
    clients: worst.map(({ client, plan, count }) => {
      // The time of the first refusal by the shadow limits, to the second.
      const first = Number.isFinite(count.firstMs) ? iso(count.firstMs) : null
      return { client, plan, first, ...shownCounts(count) }
    }),
  }
}

const shownCounts = (count: ShadowCount) => ({
  /** Requests that reached the quota stage. */
  requests: count.judged,
  /** Requests that were not judged: the store was away or late, or too many waited for it. As many may be missing in `refused`. */
  degraded: count.unjudged,
  /** Requests that the shadow limits would have refused. */
  refused: { minute: count.shadowMinute, day: count.shadowDay },
  /** Requests that the live limits refused. */
  liveRefused: { minute: count.liveMinute, day: count.liveDay },
})
