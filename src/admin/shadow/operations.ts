/** What shadow limits, which are only tried, would have refused. */
import type { ShadowCount } from '../../insight/live/shadow-counts.ts'
import type { Shadow, ShadowCounts } from '../../insight/api/shadow.ts'
import { iso, json, seen } from '../answers.ts'
import { look, type Operation } from '../operation.ts'

const LISTED = 200

export const shadowOperations: readonly Operation[] = [
  look('/api/shadow', ({ live: { shadow }, reloads: { config } }) => {
    shadow.use(config.plans, Date.now())
    const { worst, byPlan } = shadow.refused(LISTED)
    return json(200, {
      ...seen('gateway'),
      since: iso(shadow.sinceMs),
      plans: [...config.plans.values()].flatMap(({ name: plan, shadow: tried, limits: live }) => {
        if (tried === undefined) return []
        const clients = byPlan.get(plan) ?? 0
        const counts = shownCounts(shadow.plan(plan))
        return [{ plan, limits: tried, live: live ?? null, clients, ...counts }]
      }),
      clients: worst.map(({ client, plan, count }) => {
        const first = Number.isFinite(count.firstMs) ? iso(count.firstMs) : null
        return { client, plan, first, ...shownCounts(count) }
      }),
    } satisfies Shadow)
  }),
]
const shownCounts = (count: ShadowCount): ShadowCounts => ({
  requests: count.judged,
  degraded: count.unjudged,
  refused: { minute: count.shadowMinute, day: count.shadowDay },
  liveRefused: { minute: count.liveMinute, day: count.liveDay },
})
