/** Reports who still calls deprecated operations. */
import type { Deprecations, LifecycleStage, Routes } from '../insight/api/state.ts'
import type { RouteConfig } from '../config/config.ts'
import type { Live } from '../insight/live/live.ts'
import { stageOf, withdrawalOf } from '../core/rules/deprecation.ts'
import { iso, json, seen, type Answer } from './answers.ts'

export interface DeprecationNeeds {
  readonly live: Live
}

/** Callers that are listed; the others are only counted. */
const LISTED = 1_000

export function getDeprecations({ live }: DeprecationNeeds): Answer {
  const { calls, others } = live.deprecated.busiest(LISTED)
  const answer: Deprecations = {
    ...seen('gateway'),
    since: iso(live.startedAtMs),
    callers: calls.map(({ lastSeenMs, ...call }) => ({ ...call, lastSeen: iso(lastSeenMs) })),
    others,
  }
  return json(200, answer)
}

/** A route's deprecation as in GET /api/routes. nowMs: Unix time. */
export function shownDeprecation(
  deprecated: RouteConfig['deprecated'],
  nowMs: number,
): Routes['routes'][number]['deprecated'] {
  if (deprecated === undefined) return null
  const { sinceMs, sunsetMs, successor } = deprecated
  const withdrawal = withdrawalOf(deprecated)
  const stage: LifecycleStage = withdrawal === undefined ? 'announce' : stageOf(withdrawal, nowMs)
  return {
    since: iso(sinceMs),
    sunset: iso(sunsetMs),
    successor: successor ?? null,
    stage,
  }
}
