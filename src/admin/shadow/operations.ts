/** What shadow limits, which are only tried, would have refused. */
import type { Whole } from '../../insight/api/live.ts'
import type { ShadowCount } from '../../insight/live/shadow-counts.ts'
import { latestOf, summed } from '../../insight/live/sums.ts'
import { fieldOf, perWindow } from '../../config/time.ts'
import { sum } from '../../insight/format.js'
import { iso, seen } from '../answers.ts'
import { lookAtAll, type ApiNeeds, type Operation } from '../operation.ts'

const LISTED = 200

export const shadowOperations: readonly Operation[] = [lookAtAll('/api/shadow', shadowOf, merge)]

/** GET /api/shadow: plans with shadow limits, and the clients that these would have refused, worst first. */
export type Shadow = Whole<Part>
type Part = ReturnType<typeof shadowOf>

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
  refused: perWindow(({ name }) => count[fieldOf('shadow', name)]),
  /** Requests that the live limits refused. */
  liveRefused: perWindow(({ name }) => count[fieldOf('live', name)]),
})

/** Plans add up exactly. Of a client what a gateway has counted is missing where it is not among the worst there. */
function merge(parts: readonly [Part, ...Part[]]): Part {
  const clients = summed(
    parts.flatMap((part) => part.clients),
    ['plan', 'client'],
    (both) => ({ first: both.flatMap(({ first }) => first ?? []).toSorted()[0] ?? null }),
  )
  const plans = summed(
    parts.flatMap((part) => part.plans),
    ['plan'],
    ([{ plan, limits, live, clients: known }, other]) => {
      const listed = clients.filter((one) => one.plan === plan).length
      return { limits, live, clients: Math.max(listed, known, other.clients) }
    },
  )
  const worst = clients.toSorted((one, other) => sum(other.refused) - sum(one.refused))
  return { ...parts[0], since: latestOf(parts), plans, clients: worst.slice(0, LISTED) }
}
