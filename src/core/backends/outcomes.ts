/** What became of requests to one backend, counted by a few words. */
import {
  backendFailureKinds,
  type BackendFailureKind,
  type FailedAttempt,
} from '../rules/backend-failure.ts'

/** The status of a whole answer; why there is none; or nobody waits for one any more. */
export type Outcome = number | FailedAttempt | 'abandoned'

/** The request that a backend was sent: its client, and startedMs, the performance.now() of the sending. */
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
