/** Load on gateways whose store comes and goes, and what is expected of the answers. */
import { expect, onTestFinished } from 'vitest'
import { ownMs } from '../support/own-time.ts'
import { again, call, eventually, pick, type Answer, type Gateway } from './gateways.ts'

export interface Load {
  /** Answers that tell the quota, and those that do not, so far. */
  readonly answers: Answer[]
  /** How long answers of the admin listener took meanwhile, which ask for no decision. */
  readonly undecidedMs: number[]
  /** Those that came from now on. */
  since(): () => Answer[]
  stop(): Promise<void>
}

/** A few callers that go on without end, spread over the gateways. */
export function startLoad(
  gateways: readonly Gateway[],
  { key, callers = 4 }: { key: string; callers?: number },
): Load {
  const answers: Answer[] = []
  const undecidedMs: number[] = []
  const stops = [
    again(callers, async (at) => answers.push(await pick(gateways, at).call(key))),
    again(gateways.length, async (at) => {
      const { tookMs } = await call(`${pick(gateways, at).adminOrigin}/healthz`, undefined)
      undecidedMs.push(tookMs)
    }),
  ]
  const stop = async (): Promise<void> => void (await Promise.all(stops.map((each) => each())))
  // A test that has failed leaves no callers to the next.
  onTestFinished(stop)
  return {
    answers,
    undecidedMs,
    since: () => {
      const from = answers.length
      return () => answers.slice(from)
    },
    stop,
  }
}

const quotaFields = ['x-ratelimit-limit', 'x-ratelimit-remaining', 'x-ratelimit-reset', 'ratelimit']
export const tellsQuota = ({ headers }: Answer): boolean => headers.has('x-ratelimit-remaining')
export const tellsNothing = ({ headers }: Answer): boolean =>
  quotaFields.every((name) => !headers.has(name))

const quantile = (values: readonly number[], share: number): number =>
  [...values].sort((a, b) => a - b)[Math.floor((values.length - 1) * share)] ?? 0

/**
 * The promise is 250 ms for a decision. The time measured here ends in a test process that shares two cores with
 * Redis, gateways and other tests; how much of it is the machine's is known from calls that need no decision.
 */
export function expectDecidedInTime(
  answers: readonly Answer[],
  undecidedMs: readonly number[],
): void {
  expect(answers.length).toBeGreaterThan(5)
  expect(undecidedMs.length).toBeGreaterThan(5)
  const tookMs = answers.map((answer) => answer.tookMs)
  expect(quantile(tookMs, 0.5)).toBeLessThan(250 + 4 * quantile(undecidedMs, 0.5))
  // Four turns of the loop: a request goes by way of a store, a backend, and back. Of the few calls that need no decision the slowest counts.
  expect(quantile(tookMs, 0.99)).toBeLessThan(250 + 4 * quantile(undecidedMs, 1))
  expect(quantile(tookMs, 1)).toBeLessThan(1_000 + 5 * quantile(undecidedMs, 1))
}

/** From now until an answer tells the quota again; 2 s are promised, the rest is the machine's, as above: it takes several steps. */
export async function expectRecovery(load: Load): Promise<void> {
  const [fresh, sinceMs] = [load.since(), ownMs()]
  await eventually('recovery', () => fresh().some(tellsQuota))
  expect(ownMs() - sinceMs).toBeLessThan(2_500 + 5 * quantile(load.undecidedMs, 1))
}
