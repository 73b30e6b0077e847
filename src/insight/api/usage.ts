/** Shapes of the admin API's answers about use by day. Times are RFC 3339 in UTC; days are those of UTC, as 2026-11-03. */
import type { Seen } from './live.ts'

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
