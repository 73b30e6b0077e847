/** Use by day as CSV, for the page and the command line. */
import { csvLine } from '../../insight/format.js'
import type { ClientUsage } from './operations.ts'

export const USAGE_COLUMNS = 'day,client,plan,admitted,refused_minute,refused_day,refused_ban'

/** A client's days, line by line. */
export const usageLines = ({ client, days }: ClientUsage): string[] => [
  USAGE_COLUMNS,
  ...days.flatMap((each) =>
    (each.plans ?? [each]).map(({ plan, admitted, refused: { minute, day, ban } }) =>
      csvLine([each.day, client, plan, admitted, minute, day, ban]),
    ),
  ),
]
