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
  /** From then on it is worth a request, Unix time in ms; Infinity: when something shows that it is well. */
  readonly usableAtMs: number
  /** When it gets a request again to see how it is, Unix time in ms; undefined: it is up, or a check decides. */
  readonly nextTryAtMs?: number | undefined
}

export function healthOf({ name, standing }: Backend): BackendHealth {
  const nowMs = performance.now()
  const { fault } = standing
  const state = standing.isOut(nowMs)
    ? 'ejected'
    : standing.isDown || standing.isUnreachable
      ? 'down'
      : 'up'
  if (state === 'up') return { name, state, fault: undefined, since: undefined, usableAtMs: 0 }
  const epochMs = Date.now() - nowMs
  const since = new Date(epochMs + standing.faultSinceMs).toISOString()
  const usableAtMs = epochMs + standing.usableAtMs
  const tryMs = standing.ejectedUntilMs ?? standing.usableAtMs
  const nextTryAtMs = tryMs === Infinity ? undefined : epochMs + tryMs
  return { name, state, fault, since, usableAtMs, nextTryAtMs }
}

/** Of each backend the worst that anyone says. */
export function worstOf(all: readonly (readonly BackendHealth[])[]): BackendHealth[] {
  const worst = new Map<string, BackendHealth>()
  for (const health of all.flat()) {
    const other = worst.get(health.name)
    if (other === undefined || other.usableAtMs < health.usableAtMs) worst.set(health.name, health)
  }
  return [...worst.values()]
}
