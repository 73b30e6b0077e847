/** Use by day as CSV, for the page and the command line. */
import { csvLine } from '../../insight/format.js'
import { windowNames } from '../../config/time.ts'
import type { ClientUsage, PlanTotals } from './operations.ts'

/** Refusals that are counted, in the order of columns. */
export const causes = [...windowNames, 'ban'] as const
export const USAGE_COLUMNS = `day,client,plan,admitted,refused_${causes.join(',refused_')}`

export const usageLine = (day: string, client: string, { plan, admitted, refused }: PlanTotals) =>
  csvLine([day, client, plan, admitted, ...causes.map((cause) => refused[cause])])

/** A client's days, line by line. */
export const usageLines = ({ client, days }: ClientUsage): string[] => [
  USAGE_COLUMNS,
  ...days.flatMap((each) =>
    (each.plans ?? [each]).map((totals) => usageLine(each.day, client, totals)),
  ),
]
