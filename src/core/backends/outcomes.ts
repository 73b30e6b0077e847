/** Counts the results of requests to one backend by kind. */
import {
  backendFailureKinds,
  type BackendFailureKind,
  type FailedAttempt,
} from '../rules/backend-failure.ts'

/** The status of a complete answer, the failure, or `abandoned` when nobody waits for the answer any more. */
export type Outcome = number | FailedAttempt | 'abandoned'

/** The sender of a request. startedMs: performance.now() when the backend was sent the request. */
export interface Sender {
  readonly clientId: string
  readonly startedMs: number
}

const classes = ['1xx', '2xx', '3xx', '4xx', '5xx'] as const
export type Outcomes = Record<(typeof classes)[number] | BackendFailureKind | 'abandoned', number>

export const noOutcomes = (): Outcomes =>
  Object.fromEntries(
    [...classes, ...backendFailureKinds, 'abandoned'].map((name) => [name, 0]),
  ) as Outcomes

export function countOutcome(outcomes: Outcomes, outcome: Outcome): void {
  if (typeof outcome === 'number') outcomes[classes[Math.trunc(outcome / 100) - 1] ?? '5xx']++
  else outcomes[outcome === 'abandoned' ? outcome : outcome.kind]++
}
