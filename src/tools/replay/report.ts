/** The report of a replay, as `--json` prints it. Times are RFC 3339 in UTC. */
import type { Limits } from '../../config/config.ts'
import type { PerWindow, WindowName } from '../../config/time.ts'
import type { LogReading } from '../log-files/open.ts'

/** A value for each cause of refusals that are counted apart. */
export type PerRefusal<Value> = Readonly<Record<WindowName | 'ban', Value>>

export interface Outcome {
  readonly admitted: number
  readonly refused: PerRefusal<number>
  /** With --against: requests neither admitted nor limited, because this configuration lacks the client or the key, or refuses the route. */
  readonly other?: number
}

export interface ReplayedClient extends Outcome {
  readonly client: string
  readonly plan: string
  readonly requests: number
  /** First refusal by each of them; null: none. */
  readonly first: PerRefusal<string | null>
  /** With --against: outcome under the old configuration. */
  readonly before?: Outcome
  /** Most requests in one window, such as a day. */
  readonly peak: PerWindow<number>
  /** With --suggest: the smallest plan that would not have limited the client; null: none. */
  readonly suggest?: string | null
}

export type ReplayedPlan = Omit<ReplayedClient, 'client' | 'first' | 'peak' | 'suggest'> & {
  readonly clients: number
}

export type Percentiles = Readonly<Record<'p50' | 'p95' | 'p99', number>>
type RefusedOverTime = PerRefusal<readonly number[]>

export interface SuggestedPlan {
  readonly plan: string
  /** null: each client of the plan states its own. */
  readonly limits: Limits | null
  readonly clients: number
  readonly requests: number
  /** Percentiles of the clients' busiest windows. */
  readonly peaks: PerWindow<Percentiles>
  /** Limits in the proportion of the plan's own, with the requests and the share that they refuse; null: the plan has none, or no requests to try. */
  readonly atShare: (Limits & { readonly refused: number; readonly share: number }) | null
}

export interface Suggestions {
  /** Share of a plan's requests that may be refused, from 0 to 1, as given. */
  readonly share: number
  /** End of the part of the log that was tried; null: all of it was. */
  readonly until: string | null
  readonly plans: readonly SuggestedPlan[]
}

/** Why the log's own answer to a request differs from the replay's. */
export type Cause =
  /** Another limit counted: that of another revision, one without the store, one reset by an operator, or the rest that other workers and gateways left. */
  | 'limits'
  /** A strike or ban was known later here, or not at all: it was of another worker, gateway or operator, or fell into an outage. */
  | 'strikes'
  /** Lines are missing: the log begins or has a hole within the window, or a request lasted longer than the reader waits. */
  | 'missing'
  | 'unexplained'

export interface ReplayReport extends Outcome {
  /** Requests of known clients that reached the ban and quota stages. */
  readonly requests: number
  /** Requests that were refused before these stages, or have no known caller. */
  readonly notJudged: number
  /** Requests of clients that the configuration lacks. */
  readonly unknownClients: { readonly requests: number; readonly names: readonly string[] }
  readonly unreadable: number
  readonly from: string | null
  readonly to: string | null
  readonly revision: string
  readonly against?: string
  /** With --against: clients that have used a key which the new configuration lacks. */
  readonly gone?: number
  readonly before?: Outcome
  /** Clients with the most refusals first; with --against, those with the largest increase. */
  readonly clients: readonly ReplayedClient[]
  readonly plans: readonly ReplayedPlan[]
  /** Refusals per minute as columns; with more than 2,000 minutes, per longer step. */
  readonly overTime: RefusedOverTime & {
    readonly from: string | null
    readonly stepSeconds: number
    readonly admitted: readonly number[]
    readonly before?: RefusedOverTime
  }
  /** Comparison with Tollgate's own log, if it is one. same: requests whose logged answer is the replay's. */
  readonly log?: {
    readonly same: number
    readonly differs: Readonly<Record<Cause, number>>
    /** The first difference of each cause. */
    readonly examples: readonly {
      readonly cause: Cause
      readonly at: string
      readonly client: string
      readonly logged: string
      readonly replayed: string
    }[]
  }
  /** Present with --suggest. */
  readonly suggestions?: Suggestions
  readonly read: LogReading & { readonly revisions: readonly string[] }
}
