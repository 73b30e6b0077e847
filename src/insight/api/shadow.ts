/** GET /api/shadow: who would have been refused under the limits that are only tried. */
import type { Limits } from '../../config/config.ts'
import type { Seen } from './live.ts'

export interface ShadowCounts {
  /** That came to the quota stage. */
  readonly requests: number
  /** Requests that were not judged: the store was away or late, or too many waited for it. As many may be missing in `refused`. */
  readonly degraded: number
  /** That the shadow limits would have refused. */
  readonly refused: { readonly minute: number; readonly day: number }
  /** That the live limits did refuse. */
  readonly liveRefused: { readonly minute: number; readonly day: number }
}

export interface ShadowPlan extends ShadowCounts {
  readonly plan: string
  readonly limits: Limits
  /** null: each client of it states its own. */
  readonly live: Limits | null
  /** Clients with a refusal by the shadow. Of a day 100,000 are known by name; those that come later count in all else of their plan. */
  readonly clients: number
}

export interface ShadowClient extends ShadowCounts {
  readonly client: string
  readonly plan: string
  /** First refusal by the shadow. */
  readonly first: string | null
}

export interface Shadow extends Seen {
  /** 00:00Z of the day, or a later start of the counting: of the gateway, or of limits that any plan tries. */
  readonly since: string
  /** Those with a shadow. */
  readonly plans: readonly ShadowPlan[]
  /** Worst first, at most 200. */
  readonly clients: readonly ShadowClient[]
}
