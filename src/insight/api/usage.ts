/** Shapes of the admin API's answers about clients and their use. Times are RFC 3339 in UTC; days are those of UTC, as 2026-11-03. */
import type { Limits } from '../../config/config.ts'
import type { Seen } from './live.ts'
import type { Decision } from '../../core/record/recent.ts'

/** A current window in the store. */
export interface WindowUse {
  readonly used: number
  /** Tokens handed to processes and not counted in `used`; some may be spent already. */
  readonly leased: number
  readonly limit: number
  readonly resetsAt: string
}

export type ClientState =
  | { readonly state: 'free' }
  /** A window is used up. */
  | { readonly state: 'limited'; readonly by: 'minute' | 'day'; readonly until: string }
  /** All keys that have not expired are banned. */
  | { readonly state: 'banned'; readonly until: string }

export interface ClientKey {
  readonly id: string
  readonly expires: string | null
  /** Last use at this gateway; null: none since it started. */
  readonly lastUsed: string | null
  readonly bannedUntil: string | null
}

export interface ClientRow {
  readonly id: string
  readonly plan: string
  readonly limits: Limits
  /** null: the store is away. */
  readonly minute: WindowUse | null
  readonly day: WindowUse | null
  /** The larger used / limit of both windows: 0 to 1, or more after a limit was lowered. */
  readonly share: number | null
  /** Refusals by this gateway for quota or a ban in the last five minutes. */
  readonly refusedLately: number
  readonly state: ClientState | null
  readonly keys: readonly ClientKey[]
}

/** GET /api/clients?plan=&q=&sort=nearest|used|refused|id&cursor=, 50 at a time. */
export interface ClientsPage extends Seen {
  readonly total: number
  /** All orders but `id` follow what this gateway has seen; the numbers shown are the store's. */
  readonly sort: 'nearest' | 'used' | 'refused' | 'id'
  readonly clients: readonly ClientRow[]
  /** Cursor of the next page; null: this is the last. */
  readonly cursor: string | null
}

/** GET /api/clients/ID */
export interface ClientDetail extends Seen {
  readonly client: ClientRow
  /** Refusals by this gateway, newest first. */
  readonly recentRefusals: readonly Decision[]
}

/** Decisions under one plan. */
export interface PlanTotals {
  readonly plan: string
  readonly admitted: number
  readonly refused: { readonly minute: number; readonly day: number; readonly ban: number }
}

export interface DayTotals extends PlanTotals {
  readonly day: string
  /** All plans of the day if there were several: `plan` is then the first, and the numbers are sums. */
  readonly plans?: readonly PlanTotals[]
}

/** GET /api/clients/ID/usage?from=&to= (days, both included; default: the latest 30). Days without a request are left out. */
export interface ClientUsage extends Seen {
  readonly client: string
  readonly plan: string | null
  readonly from: string
  readonly to: string
  readonly days: readonly DayTotals[]
}

/** GET /api/usage?day= (default: today); an entry for each client and plan. As CSV: day,client,plan,admitted,refused_minute,refused_day,refused_ban */
export interface DayUsage extends Seen {
  readonly day: string
  readonly clients: readonly (PlanTotals & { readonly client: string })[]
}

/** POST /api/clients/ID/reset {"window":"minute"|"day"|"both"} */
export interface ResetDone extends Seen {
  readonly client: string
  readonly window: 'minute' | 'day' | 'both'
  readonly before: { readonly minute: number; readonly day: number }
  readonly after: { readonly minute: number; readonly day: number }
}
