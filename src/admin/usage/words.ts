/** Use by day as CSV, for the page and the command line. */
import { csvLine, refusers } from '../../insight/format.js'
import type { ClientUsage, PlanTotals } from './operations.ts'

export const USAGE_COLUMNS = `day,client,plan,admitted,refused_${refusers.join(',refused_')}`

export const usageLine = (day: string, client: string, { plan, admitted, refused }: PlanTotals) =>
  csvLine([day, client, plan, admitted, ...refusers.map((by) => refused[by])])

/** A client's days, line by line. */
export const usageLines = ({ client, days }: ClientUsage): string[] => [
  USAGE_COLUMNS,
  ...days.flatMap((each) =>
    (each.plans ?? [each]).map((totals) => usageLine(each.day, client, totals)),
  ),
]
