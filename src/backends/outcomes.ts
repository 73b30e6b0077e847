/** What became of requests to one backend, counted by a few words. */
import {
  backendFailureKinds,
  type BackendFailureKind,
  type FailedAttempt,
} from '../rules/backend-failure.ts'

/** The status of a whole answer; why there is none; or nobody waits for one any more. */
export type Outcome = number | FailedAttempt | 'abandoned'

/** Whose request it was; startedMs: performance.now() when it was to be forwarded. */
export interface Sender {
  readonly clientId: string
  readonly startedMs: number
}

const classes = ['1xx', '2xx', '3xx', '4xx', '5xx'] as const
export type Outcomes = Record<(typeof classes)[number] | BackendFailureKind | 'abandoned', number>

/** Upper bounds of the times that answers are counted by, in seconds. */
export const answerBounds = [
  0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.025, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5,
  1, 2.5, 5, 10, 30,
] as const

/** For each bound how many answers took less, and more than the one before; then those beyond. */
export const noAnswers = (): Float64Array => new Float64Array(answerBounds.length + 1)

export function countAnswer(answers: Float64Array, seconds: number): void {
  let slot = 0
  while (slot < answerBounds.length && seconds > (answerBounds[slot] ?? 0)) slot++
  answers[slot] = (answers[slot] ?? 0) + 1
}

export const noOutcomes = (): Outcomes =>
  Object.fromEntries(
    [...classes, ...backendFailureKinds, 'abandoned'].map((name) => [name, 0]),
  ) as Outcomes

export function countOutcome(outcomes: Outcomes, outcome: Outcome): void {
  if (typeof outcome === 'number') outcomes[classes[Math.trunc(outcome / 100) - 1] ?? '5xx']++
  else outcomes[outcome === 'abandoned' ? outcome : outcome.kind]++
}
