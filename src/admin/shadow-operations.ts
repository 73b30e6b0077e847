/** Reports what shadow limits, which are only tried, would have refused. */
import type { Shadow, ShadowCounts as Shown } from '../insight/api/shadow.ts'
import type { Config } from '../config/config.ts'
import type { Live } from '../insight/live/live.ts'
import type { ShadowCount } from '../core/record/shadow-counts.ts'
import { iso, json, seen, type Answer } from './answers.ts'

export interface ShadowNeeds {
  readonly live: Live
  readonly reloads: { readonly config: Pick<Config, 'plans'> }
}

const LISTED = 200

export function getShadow({ live: { shadow }, reloads: { config } }: ShadowNeeds): Answer {
  const nowMs = Date.now()
  shadow.use(config.plans, nowMs)
  const { worst, byPlan } = shadow.refused(LISTED, nowMs)
  return json(200, {
    ...seen('gateway'),
    since: iso(shadow.sinceMs(nowMs)),
    plans: [...config.plans.values()].flatMap(({ name: plan, shadow: tried, limits: live }) => {
      if (tried === undefined) return []
      const clients = byPlan.get(plan) ?? 0
      const counts = shown(shadow.plan(plan, nowMs))
      return [{ plan, limits: tried, live: live ?? null, clients, ...counts }]
    }),
    clients: worst.map(({ client, plan, count }) => {
      const first = Number.isFinite(count.firstMs) ? iso(count.firstMs) : null
      return { client, plan, first, ...shown(count) }
    }),
  } satisfies Shadow)
}

const shown = (count: ShadowCount): Shown => ({
  requests: count.requests,
  degraded: count.degraded,
  refused: { minute: count.refusedMinute, day: count.refusedDay },
  liveRefused: { minute: count.liveMinute, day: count.liveDay },
})
