/** Reports the routes, and who calls those that are deprecated. */
import type { RouteConfig } from '../../config/config.ts'
import { stageOf, withdrawalOf } from '../../core/rules/deprecation.ts'
import type { Deprecations, LifecycleStage, Routes } from '../../insight/api/state.ts'
import { iso, json, seen } from '../answers.ts'
import { look, type Operation } from '../operation.ts'

/** Callers that are listed; the others are only counted. */
const LISTED = 1_000

export const routeOperations: readonly Operation[] = [
  look('/api/routes', async ({ reloads, state }) => {
    const counts = await state.requestsByRoute()
    const nowMs = Date.now()
    const routes = reloads.config.routes.map(({ name, method, path, deprecated }) => ({
      name,
      methods: [method],
      path,
      deprecated: shownDeprecation(deprecated, nowMs),
      requests: counts.get(name) ?? 0,
    }))
    return json(200, { ...seen('gateway'), routes } satisfies Routes)
  }),
  look('/api/deprecations', ({ live }) => {
    const { calls, others } = live.deprecated.busiest(LISTED)
    return json(200, {
      ...seen('gateway'),
      since: iso(live.startedAtMs),
      callers: calls.map(({ lastSeenMs, ...call }) => ({ ...call, lastSeen: iso(lastSeenMs) })),
      others,
    } satisfies Deprecations)
  }),
]

function shownDeprecation(
  deprecated: RouteConfig['deprecated'],
  nowMs: number,
): Routes['routes'][number]['deprecated'] {
  if (deprecated === undefined) return null
  const { sinceMs, sunsetMs, successor } = deprecated
  const withdrawal = withdrawalOf(deprecated)
  const stage: LifecycleStage = withdrawal === undefined ? 'announce' : stageOf(withdrawal, nowMs)
  return { since: iso(sinceMs), sunset: iso(sunsetMs), successor: successor ?? null, stage }
}
