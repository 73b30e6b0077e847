/** GET /api/shadow: clients that would have been refused under shadow limits, which are only tried. */
import type { Limits } from '../../config/config.ts'
import type { Seen } from './live.ts'

export interface ShadowCounts {
  /** Requests that reached the quota stage. */
  readonly requests: number
  /** Requests that were not judged: the store was away or late, or too many waited for it. As many may be missing in `refused`. */
  readonly degraded: number
  /** Requests that the shadow limits would have refused. */
  readonly refused: { readonly minute: number; readonly day: number }
  /** Requests that the live limits refused. */
  readonly liveRefused: { readonly minute: number; readonly day: number }
}

export interface ShadowPlan extends ShadowCounts {
  readonly plan: string
  readonly limits: Limits
  /** Limits in force; null: each client of the plan has its own. */
  readonly live: Limits | null
  /** Clients that the shadow limits would have refused. A day keeps 100,000 by name; later ones count only in the plan's other figures. */
  readonly clients: number
}

export interface ShadowClient extends ShadowCounts {
  readonly client: string
  readonly plan: string
  /** Time of the first refusal by the shadow limits, to the second. */
  readonly first: string | null
}

export interface Shadow extends Seen {
  /** 00:00Z of the day, or a later start of counting: with the gateway, or with a plan's shadow limits. */
  readonly since: string
  /** Plans with shadow limits. */
  readonly plans: readonly ShadowPlan[]
  /** Worst first, at most 200. */
  readonly clients: readonly ShadowClient[]
}
