/** Why a request was answered as it was, or would be: the verdicts of the stages themselves, in their order. Times are RFC 3339 in UTC. */
import type { PerWindow, WindowName } from '../../config/time.ts'
import type { RefusalCode } from '../../core/rules/refusals.ts'
import type { finders } from '../explain/findings.ts'
import type { Seen } from './live.ts'
import type { SeenUse } from '../../core/record/tally.ts'

export type StageName = keyof typeof finders

export interface ExplainedStage {
  readonly stage: StageName
  /** unknown: the verdict cannot be predicted, nor can those of the stages after it. */
  readonly verdict: 'pass' | 'refuse' | 'sent' | 'unknown' | 'notReached'
  /** What was examined and found, in a few words; empty where the stage was not reached. */
  readonly rule: string
  /** FILE:LINE of the setting that decided, from the folder of the configuration; null: a default, or no setting has a say. */
  readonly config: string | null
  /** Figures by name, with units in the names: used, limit, left, resetAt, untilAt, strikes, taken. */
  readonly numbers: Readonly<Record<string, number | string | null>>
}

/** POST /api/explain is `{...Seen, explanation}`; `tollgate explain --json` prints the explanation alone. */
export interface Explanation {
  readonly at: string
  readonly method: string
  readonly target: string
  readonly key: string | null
  readonly client: string | null
  readonly plan: string | null
  readonly route: string | null
  /** null: a backend would answer, or a stage's verdict is unknown. */
  readonly status: number | null
  readonly code: RefusalCode | null
  /** Window whose limit refused the request. */
  readonly window: WindowName | null
  readonly retryAfterSeconds: number | null
  readonly backend: string | null
  readonly stages: readonly ExplainedStage[]
  /** The stage that made the answer. */
  readonly decidedBy: StageName
  readonly charged: boolean
  /** Changes each of which would lead to another answer. */
  readonly change: readonly string[]
  /** Use that was assumed because the counters were not read; null: they were. */
  readonly assumed: PerWindow<SeenUse> | null
  /** Recorded facts about a past request that do not follow from the rules, such as a backend's failure. */
  readonly recorded: readonly string[]
}

export interface ExplainAnswer extends Seen {
  readonly explanation: Explanation
}
