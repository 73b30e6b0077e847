/** What a check is, and what it has found. */
import type { Caller, Target } from './caller.ts'

/** not claimed: the gateway does not say that it does this. */
export const verdicts = ['holds', 'broken', 'cannot tell', 'not claimed'] as const
export type Verdict = (typeof verdicts)[number]

export interface Finding {
  readonly verdict: Verdict
  /** In a few words. */
  readonly seen: string
  readonly numbers?: Readonly<Record<string, number>>
}

export interface Stage extends Target {
  /** Nobody's: for requests without a credential, or with a wrong one. */
  readonly stranger: Caller
  /** For what is not counted. */
  readonly spare: Caller
  /** What a key looks like. */
  readonly sampleKey: string
  /** How many of one minute are admitted, one after the other: others are held against it, so that each names its own fault. */
  readonly base: Promise<number>
  /** A text where the minute does not end where Reset said. */
  readonly resetFault: Promise<string | undefined>
  /** Of all keys: whole once everyone has asked. */
  readonly journals: readonly Caller[]
}

/** By name. keys: how many it uses, alone; last: it asks nothing, and looks at what all were answered. */
export type Checks = Readonly<Record<string, Check>>
export interface Check {
  readonly keys: number | 'last'
  run(stage: Stage, callers: readonly Caller[]): Finding | Promise<Finding>
}

export const holds = (seen: string, numbers = {}): Finding => ({ verdict: 'holds', seen, numbers })
export const broken = (seen: string, numbers = {}): Finding => ({
  verdict: 'broken',
  seen,
  numbers,
})
export const cannotTell = (seen: string): Finding => ({ verdict: 'cannot tell', seen })
export const notClaimed = (seen: string): Finding => ({ verdict: 'not claimed', seen })

/** Of several keys that did the same. */
export const worstOf = (findings: readonly Finding[]): Finding =>
  findings.find(({ verdict }) => verdict === 'broken') ?? findings[0] ?? cannotTell('nothing asked')

export function compared(admitted: number, expected: number, where = ''): Finding {
  const [over, under] = [Math.max(0, admitted - expected), Math.max(0, expected - admitted)]
  const finding = admitted === expected ? holds : broken
  const numbers = { admitted, expected, over, under }
  return finding(`${admitted} of ${expected} admitted${where}`, numbers)
}

/** The first fault, or how often there was none; without anything to judge it is not claimed. */
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
