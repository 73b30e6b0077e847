/** What the log has told of a client so far, which the cause of a difference depends on. */
import { DAY_MS, MINUTE_MS } from '../rules/time.ts'
import type { LoggedRequest } from './logged.ts'
import { WindowCounts } from './window-counts.ts'

export interface Known {
  readonly minute: WindowCounts
  readonly day: WindowCounts
  process: string
  /** When it was last decided so, Unix time in ms. */
  degradedMs: number
  foreignRevisionMs: number
}

const NEVER = -Infinity

export const newKnown = (process: string): Known => ({
  minute: new WindowCounts(MINUTE_MS),
  day: new WindowCounts(DAY_MS),
  process,
  degradedMs: NEVER,
  foreignRevisionMs: NEVER,
})

/** Notes who decides. */
export function decidedBy(known: Known, process: string): void {
  known.minute.decidedBy(process)
  known.day.decidedBy(process)
  if (known.process === process) return
  const other = gatewayOf(known.process) === gatewayOf(process) ? 'leases' : 'hosts'
  known.minute.hasOther(other)
  known.day.hasOther(other)
  known.process = process
}

/** Half of what tells a process is its gateway's; of lines that do not tell it, their file. */
const gatewayOf = (process: string): string =>
  /^[0-9a-f]{8}(?=[0-9a-f]{8}(\/\d+)?$)/.exec(process)?.[0] ?? process.replace(/\/\d+$/, '')

/** Whether the log itself counts more than a limit with this request. */
export const isBeyond = (request: LoggedRequest, { minute, day }: Known): boolean =>
  request.logged === 'admitted' &&
  Number.isNaN(request.refundedAtMs) &&
  (day.isBeyond(request) || minute.isBeyond(request))
