/** Chooses the backend of each request, and hears how it went: in turn, leaving out for a moment those that could not be connected to. */
import { couldNotConnect, type FailedAttempt } from '../rules/backend-failure.ts'
import type { Backend } from './backend.ts'

const restMs = 1_000

/** The status of a whole answer; why there is none; or nobody waits for one any more. */
export type Outcome = number | FailedAttempt | 'abandoned'

export type Balancer = ReturnType<typeof createBalancer>

/** Throws when the list is empty. */
export function createBalancer(backends: readonly Backend[]) {
  const [first] = backends
  if (first === undefined) throw new Error('a balancer needs at least one backend')
  let turn = 0
  return {
    backends,
    /** Another backend than `avoid` where there is one. Exactly one report follows. */
    pick: (avoid?: Backend): Backend => {
      if (backends.length === 1) return first
      let fallback: Backend | undefined
      for (let tried = 0; tried < backends.length; tried++) {
        const backend = backends[turn++ % backends.length] ?? first
        if (backend === avoid) continue
        if (!isResting(backend)) return backend
        fallback ??= backend
      }
      return fallback ?? first
    },
    report: (backend: Backend, outcome: Outcome): void => {
      if (outcome === 'abandoned') return
      if (typeof outcome === 'number') backend.fault = undefined
      else if (couldNotConnect(outcome)) {
        backend.fault = outcome.cause
        backend.restsUntilMs = performance.now() + restMs
      }
    },
  }
}

function isResting(backend: Backend): boolean {
  if (backend.restsUntilMs === undefined) return false
  if (backend.restsUntilMs > performance.now()) return true
  backend.restsUntilMs = undefined
  return false
}
