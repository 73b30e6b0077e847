/** Reports the routes, and who calls those that are deprecated. */
import type { RouteConfig } from '../../config/config.ts'
import { repeatsBasePath } from '../../config/clients/warnings.ts'
import { stageOf, withdrawalOf } from '../../core/rules/deprecation.ts'
import type { Whole } from '../../insight/api/live.ts'
import { latestOf, summed } from '../../insight/live/sums.ts'
import { iso, seen } from '../answers.ts'
import { look, lookAtAll, type ApiNeeds, type Operation } from '../operation.ts'

/** Callers that are listed; the others are only counted. */
const LISTED = 1_000

export const routeOperations: readonly Operation[] = [
  look('/api/routes', routesOf),
  lookAtAll('/api/deprecations', deprecationsOf, merge),
]

export type Routes = Awaited<ReturnType<typeof routesOf>>

async function routesOf({ reloads, state }: ApiNeeds) {
  const counts = await state.requestsByRoute()
  const nowMs = Date.now()
  const { basePath } = reloads.config.server
  const routes = reloads.config.routes.map(({ name, method, path, deprecated }) => ({
    name,
    methods: [method],
    /** Template as configured, such as /pets/{petId}. */
    path,
    /** As the path repeats server.basePath, which is most likely a mistake. */
    matchesOnly: repeatsBasePath(basePath, path) ? basePath + path : null,
    deprecated: shownDeprecation(deprecated, nowMs),
    /** Requests since this gateway started. */
    requests: counts.get(name) ?? 0,
  }))
  return { ...seen('gateway'), routes }
}

/** GET /api/deprecations: the busiest callers first; `others` counts the calls of all that are not listed. */
export type Deprecations = Whole<Part>
type Part = ReturnType<typeof deprecationsOf>

function deprecationsOf({ live }: ApiNeeds) {
  const { calls, others } = live.deprecated.busiest(LISTED)
  return {
    ...seen('gateway'),
    since: iso(live.startedAtMs),
    callers: calls.map(({ lastSeenMs, ...call }) => ({ ...call, lastSeen: iso(lastSeenMs) })),
    others,
  }
}

function merge(parts: readonly [Part, ...Part[]]): Part {
  const callers = summed(
    parts.flatMap((part) => part.callers),
    ['route', 'client', 'userAgent'],
    ([one, other]) => ({ lastSeen: one.lastSeen > other.lastSeen ? one.lastSeen : other.lastSeen }),
  ).sort((one, other) => other.count - one.count)
  const unlisted = callers.slice(LISTED).reduce((sum, { count }) => sum + count, 0)
  const others = parts.reduce((sum, part) => sum + part.others, unlisted)
  return { ...parts[0], since: latestOf(parts), callers: callers.slice(0, LISTED), others }
}

/** null: the route is not deprecated. */
function shownDeprecation(deprecated: RouteConfig['deprecated'], nowMs: number) {
  if (deprecated === undefined) return null
  const { sinceMs, sunsetMs, successor } = deprecated
  const withdrawal = withdrawalOf(deprecated)
  const stage = withdrawal === undefined ? 'announce' : stageOf(withdrawal, nowMs)
  return { since: iso(sinceMs), sunset: iso(sunsetMs), successor: successor ?? null, stage }
}
