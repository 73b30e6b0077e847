/** Sums up what a replay has counted for each client. */
import type { LogReading } from '../log-files/batch.ts'
import type { Outcome, ReplayedClient, ReplayedPlan, ReplayReport } from './report.ts'

interface Counted extends Omit<
  ReplayReport,
  keyof Outcome | 'before' | 'clients' | 'plans' | 'read' | 'suggestions' | 'unreadable'
> {
  readonly hasBefore: boolean
  readonly reading: LogReading
  readonly revisions: readonly string[]
}

export function reportOf(
  clients: readonly ReplayedClient[],
  { hasBefore, reading, revisions, ...counted }: Counted,
): ReplayReport {
  return {
    ...counted,
    ...sumOf(clients, (client) => client),
    ...(hasBefore && { before: sumOf(clients, ({ before }) => before) }),
    unreadable: reading.unreadable,
    clients: clients.toSorted((one, other) => rank(other, hasBefore) - rank(one, hasBefore)),
    plans: plansOf(clients, hasBefore),
    read: {
      files: reading.files,
      lines: reading.lines,
      otherLines: reading.otherLines,
      unreadable: reading.unreadable,
      firstUnreadable: reading.firstUnreadable ?? null,
      late: reading.late,
      notesDropped: reading.notesDropped,
      cutOff: reading.cutOff,
      revisions,
    },
  }
}

export const refusedOf = ({ refused: { minute, day, ban }, other = 0 }: Outcome): number =>
  minute + day + ban + other

const rank = (client: ReplayedClient, hasBefore: boolean): number =>
  refusedOf(client) - (hasBefore && client.before !== undefined ? refusedOf(client.before) : 0)

function sumOf(
  clients: readonly ReplayedClient[],
  outcomeOf: (client: ReplayedClient) => Outcome | undefined,
): Outcome {
  let [admitted, minute, day, ban, other] = [0, 0, 0, 0, 0]
  let hasOther = false
  for (const client of clients) {
    const outcome = outcomeOf(client)
    admitted += outcome?.admitted ?? 0
    minute += outcome?.refused.minute ?? 0
    day += outcome?.refused.day ?? 0
    ban += outcome?.refused.ban ?? 0
    other += outcome?.other ?? 0
    hasOther ||= outcome?.other !== undefined
  }
  return { admitted, refused: { minute, day, ban }, ...(hasOther && { other }) }
}

const plansOf = (clients: readonly ReplayedClient[], hasBefore: boolean): ReplayedPlan[] =>
  [...Map.groupBy(clients, ({ plan }) => plan)].map(([plan, its]) => ({
    plan,
    clients: its.length,
    requests: its.reduce((sum, { requests }) => sum + requests, 0),
    ...sumOf(its, (client) => client),
    ...(hasBefore && { before: sumOf(its, ({ before }) => before) }),
  }))
