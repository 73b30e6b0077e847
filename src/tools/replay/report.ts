/** What a replay has come to. `--json` prints it as it is. Times are RFC 3339 in UTC. */
import type { LogReading } from '../log-files/batch.ts'

export interface Outcome {
  readonly admitted: number
  readonly refused: { readonly minute: number; readonly day: number; readonly ban: number }
  /** Under --against: neither, as this configuration does not have the client or the key, or refuses for its route. */
  readonly other?: number
}

export interface ReplayedClient extends Outcome {
  readonly client: string
  readonly plan: string
  readonly requests: number
  /** First refusal by each; null: none. */
  readonly first: Readonly<Record<'minute' | 'day' | 'ban', string | null>>
  /** Under --against. */
  readonly before?: Outcome
  /** Most requests of one minute, and of one day. */
  readonly peak: { readonly minute: number; readonly day: number }
  /** Under --suggest: the smallest plan that would not have limited it; null: none. */
  readonly suggest?: string | null
}

export interface ReplayedPlan extends Outcome {
  readonly plan: string
  readonly clients: number
  readonly requests: number
  readonly before?: Outcome
}

type Percentiles = Readonly<Record<'p50' | 'p95' | 'p99', number>>
type RefusedOverTime = Readonly<Record<'minute' | 'day' | 'ban', readonly number[]>>

export interface SuggestedPlan {
  readonly plan: string
  /** null: each client of it states its own. */
  readonly limits: { readonly perMinute: number; readonly perDay: number } | null
  readonly clients: number
  readonly requests: number
  /** Of its clients' busiest minutes, and of their busiest days. */
  readonly peaks: { readonly minute: Percentiles; readonly day: Percentiles }
  /** Limits in the proportion of its own under which this share of its requests is refused; null: it has none of its own. */
  readonly atShare: {
    readonly perMinute: number
    readonly perDay: number
    readonly refused: number
    readonly share: number
  } | null
}

export interface Suggestions {
  /** As asked: of the requests of a plan, at most so much is to be refused, 1 being all. */
  readonly share: number
  /** Where only an earlier part of the log was tried, its end. */
  readonly until: string | null
  readonly plans: readonly SuggestedPlan[]
}

/** Why the log's own answer to a request is another than the replay's. */
export type Cause =
  /** Another limit counted: of another revision, of a store that was away, of use set back, or what another worker or gateway left of it. */
  | 'limits'
  /** A strike, or the ban for it, was known here later or not at all: of another worker or gateway, of an outage, of an operator. */
  | 'strikes'
  /** Lines are missing: the log begins, or has a hole, within the window, or a request lasted longer than the reading waits for. */
  | 'missing'
  | 'unexplained'

export interface ReplayReport extends Outcome {
  /** Of known clients that came to the ban and quota stages. */
  readonly requests: number
  /** Refused before these stages, or of nobody: not judged. */
  readonly notJudged: number
  /** Of clients that the configuration does not have. */
  readonly unknownClients: { readonly requests: number; readonly names: readonly string[] }
  readonly unreadable: number
  readonly from: string | null
  readonly to: string | null
  readonly revision: string
  readonly against?: string
  /** Under --against: clients of which a key that has asked is no longer there. */
  readonly gone?: number
  readonly before?: Outcome
  /** Most refused first; under --against: most refused more. */
  readonly clients: readonly ReplayedClient[]
  readonly plans: readonly ReplayedPlan[]
  /** Refused per minute (or per longer step, at most 2,000 of them), as columns. */
  readonly overTime: RefusedOverTime & {
    readonly from: string | null
    readonly stepSeconds: number
    readonly admitted: readonly number[]
    readonly before?: RefusedOverTime
  }
  /** Only for our own log. same: requests whose logged answer is the replay's. */
  readonly log?: {
    readonly same: number
    readonly differs: Readonly<Record<Cause, number>>
    /** The first of each cause. */
    readonly examples: readonly {
      readonly cause: Cause
      readonly at: string
      readonly client: string
      readonly logged: string
      readonly replayed: string
    }[]
  }
  /** Under --suggest. */
  readonly suggestions?: Suggestions
  readonly read: Omit<LogReading, 'bytes' | 'totalBytes' | 'readBytes' | 'firstUnreadable'> & {
    readonly firstUnreadable: NonNullable<LogReading['firstUnreadable']> | null
    readonly revisions: readonly string[]
  }
}
