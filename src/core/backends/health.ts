/** Backend health as plain data: for readiness, and from a worker to its supervisor. */
import type { Backend } from './backend.ts'

export interface BackendHealth {
  readonly name: string
  /** ejected: the backend gets no requests while others do. */
  readonly state: 'up' | 'down' | 'ejected'
  /** Cause of the last failure; undefined when up. */
  readonly fault: string | undefined
  /** Time of the first failure since it last answered, in ISO 8601. */
  readonly since: string | undefined
  /** Requests can be served through this backend; readiness needs one such backend. */
  readonly isUsable: boolean
  /** Unix time in ms at which a request tries it again; undefined: it is up, or a check decides. */
  readonly nextTryAtMs?: number | undefined
}

export function healthOf({ name, standing }: Backend): BackendHealth {
  const nowMs = performance.now()
  const { fault, isUsable } = standing
  const state = standing.isOut(nowMs)
    ? 'ejected'
    : standing.isDown || standing.isUnreachable
      ? 'down'
      : 'up'
  if (state === 'up') return { name, state, fault: undefined, since: undefined, isUsable: true }
  const epochMs = Date.now() - nowMs
  const since = new Date(epochMs + standing.faultSinceMs).toISOString()
  const tryMs = standing.ejectedUntilMs ?? standing.restsUntilMs
  const nextTryAtMs =
    tryMs === undefined || standing.failsChecks ? undefined : epochMs + Math.max(tryMs, nowMs)
  return { name, state, fault, since, isUsable, nextTryAtMs }
}

const severity = { up: 0, down: 1, ejected: 2 } as const

/** Returns the worst report on each backend. */
export function worstOf(all: readonly (readonly BackendHealth[])[]): BackendHealth[] {
  const worst = new Map<string, BackendHealth>()
  for (const health of all.flat()) {
    const other = worst.get(health.name)
    if (other === undefined || severity[other.state] < severity[health.state])
      worst.set(health.name, health)
  }
  return [...worst.values()]
}
