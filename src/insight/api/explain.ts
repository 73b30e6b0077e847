/** Why a request was answered as it was, or would be: the verdicts of the stages themselves, in their order. Times are RFC 3339 in UTC. */
import type { RefusalCode } from '../../core/rules/refusals.ts'
import type { Seen } from './live.ts'
import type { SeenUse } from '../../core/record/tally.ts'

/** As ARCHITECTURE.md names them. */
export type StageName =
  | 'accept'
  | 'match-route'
  | 'authenticate'
  | 'check-ban'
  | 'shed-load'
  | 'check-deprecation'
  | 'take-quota'
  | 'take-turn'
  | 'receive-body'
  | 'forward'

export interface ExplainedStage {
  readonly stage: StageName
  /** unknown: nobody can foretell it, nor what comes after it. */
  readonly verdict: 'pass' | 'refuse' | 'sent' | 'unknown' | 'notReached'
  /** What was looked at and what was found, in a few words; empty where it was not reached. */
  readonly rule: string
  /** FILE:LINE of the setting that decided, from the folder of the configuration; null: a default, or no setting has a say. */
  readonly config: string | null
  /** By name, units in the names: used, limit, left, resetAt, untilAt, strikes, taken. */
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
  /** That refused it. */
  readonly window: 'minute' | 'day' | null
  readonly retryAfterSeconds: number | null
  readonly backend: string | null
  readonly stages: readonly ExplainedStage[]
  /** The stage that made the answer. */
  readonly decidedBy: StageName
  readonly charged: boolean
  /** What would have to change for another answer. */
  readonly change: readonly string[]
  /** Use that was taken for granted because nobody was asked; null: the counters were. */
  readonly assumed: Readonly<Record<'minute' | 'day', SeenUse>> | null
  /** Of a request that is over: what was recorded then and does not follow from the rules alone, such as a backend's failure. */
  readonly recorded: readonly string[]
}

/** Body of POST /api/explain: a request that is thought of, or one of the recent decisions. */
export type ExplainQuery =
  | {
      readonly method: string
      readonly target: string
      /** A key's id; left out, with `token` too: no credential. */
      readonly keyId?: string
      readonly token?: string
      readonly headers?: Readonly<Record<string, string>>
    }
  | { readonly requestId: string }

export interface ExplainAnswer extends Seen {
  readonly explanation: Explanation
}
