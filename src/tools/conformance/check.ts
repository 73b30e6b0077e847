/** Checks of the conformance suite, and their findings. */
import type { Caller, KeyedAnswer, Target } from './caller.ts'

/** not claimed: the gateway does not claim to do this. */
export const verdicts = ['holds', 'broken', 'cannot tell', 'not claimed'] as const
export type Verdict = (typeof verdicts)[number]

export interface Finding {
  readonly verdict: Verdict
  /** What was observed, in a few words. */
  readonly seen: string
  readonly numbers?: Readonly<Record<string, number>>
}

export interface Setup extends Target {
  /** Sends requests without a credential, or with a wrong one. */
  readonly anonymous: Caller
  /** Sends requests that no check counts. */
  readonly spare: Caller
  /** A valid key, from which checks derive invalid ones. */
  readonly sampleKey: string
  /** Requests admitted when sent one after the other, until some are refused. Other checks compare with it, so that each names its own fault. */
  readonly base: Promise<number>
  /** Called by the check that finds it. */
  setBase(admitted: number): void
  /** Why Reset cannot be relied on; undefined: it can. */
  readonly resetFault: Promise<string | undefined>
  /** Callers of all keys. Their journals are complete once all checks that send requests have run. */
  readonly journals: readonly Caller[]
}

export type Checks = Readonly<Record<string, Check>>
export type Check = (setup: Setup, caller: Caller) => Finding | Promise<Finding>

export const answersOf = (callers: readonly Caller[]): KeyedAnswer[] =>
  callers.flatMap(({ journal }) => journal)

export const holds = (seen: string, numbers = {}): Finding => ({ verdict: 'holds', seen, numbers })
export const broken = (seen: string, numbers = {}): Finding => ({
  verdict: 'broken',
  seen,
  numbers,
})
export const cannotTell = (seen: string): Finding => ({ verdict: 'cannot tell', seen })
export const notClaimed = (seen: string): Finding => ({ verdict: 'not claimed', seen })

/** Sums up one check on several keys: the first broken finding, else the first. */
export const worstOf = (findings: readonly Finding[]): Finding =>
  findings.find(({ verdict }) => verdict === 'broken') ?? findings[0] ?? cannotTell('nothing asked')

export function compared(admitted: number, expected: number, where = ''): Finding {
  const [over, under] = [Math.max(0, admitted - expected), Math.max(0, expected - admitted)]
  const finding = admitted === expected ? holds : broken
  const numbers = { admitted, expected, over, under }
  return finding(`${admitted} of ${expected} admitted${where}`, numbers)
}

/** Reports the first fault and the number of faults; not claimed if there is nothing to judge. */
export function judgeEach<Each>(
  all: readonly Each[],
  words: string,
  fault: (each: Each) => string | undefined,
): Finding {
  if (all.length === 0) return notClaimed(`no ${words}`)
  const faults = all.flatMap((each) => fault(each) ?? [])
  const numbers = { seen: all.length, wrong: faults.length }
  if (faults[0] === undefined) return holds(`${all.length} ${words}`, numbers)
  return broken(`${faults.length} of ${all.length}: ${faults[0]}`, numbers)
}
