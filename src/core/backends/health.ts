/** How the backends fare, as plain data: for readiness, and from a worker to its supervisor. */
import type { Backend } from './backend.ts'

export interface BackendHealth {
  readonly name: string
  /** ejected: it gets no requests while others do. */
  readonly state: 'up' | 'down' | 'ejected'
  /** Why it is not up. */
  readonly fault: string | undefined
  /** Since when, in ISO 8601. */
  readonly since: string | undefined
  /** A gateway is of use by it. */
  readonly isUsable: boolean
  /** When it gets a request again to see how it is, Unix time in ms; undefined: it is up, or a check decides. */
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

const badness = { up: 0, down: 1, ejected: 2 } as const

/** Of each backend the worst that anyone says. */
export function worstOf(all: readonly (readonly BackendHealth[])[]): BackendHealth[] {
  const worst = new Map<string, BackendHealth>()
  for (const health of all.flat()) {
    const other = worst.get(health.name)
    if (other === undefined || badness[other.state] < badness[health.state])
      worst.set(health.name, health)
  }
  return [...worst.values()]
}
