/** Sums up what a replay has counted for each client. */
import type { Outcome, ReplayedClient, ReplayedPlan, ReplayReport } from './report.ts'

export const refusedOf = ({ refused: { minute, day, ban }, other = 0 }: Outcome): number =>
  minute + day + ban + other

/** Refusals, or with --against how many more than under the old configuration. */
export const moreOf = (client: ReplayedClient): number =>
  refusedOf(client) - (client.before === undefined ? 0 : refusedOf(client.before))

/** The earliest refusal, and what refused it. */
export const firstOf = ({ first }: ReplayedClient): { at: string; by: string } | undefined =>
  Object.entries(first)
    .flatMap(([by, at]) => (at === null ? [] : [{ at, by }]))
    .toSorted((one, other) => Date.parse(one.at) - Date.parse(other.at))[0]

type Clients = readonly ReplayedClient[]
type ReplayedOutcome = Pick<ReplayReport, keyof Outcome | 'before'>

/** What became of the requests of all these clients; hasBefore: under the old configuration, too. */
export function outcomeOf(clients: Clients, hasBefore: boolean): ReplayedOutcome {
  const before = clients.flatMap((client) => client.before ?? [])
  return { ...sumOf(clients, hasBefore), ...(hasBefore && { before: sumOf(before, true) }) }
}

function sumOf(outcomes: readonly Outcome[], hasOther: boolean): Outcome {
  const sum = (of: (outcome: Outcome) => number): number =>
    outcomes.reduce((all, outcome) => all + of(outcome), 0)
  const refusedBy = (by: keyof Outcome['refused']): number => sum(({ refused }) => refused[by])
  return {
    admitted: sum(({ admitted }) => admitted),
    refused: { minute: refusedBy('minute'), day: refusedBy('day'), ban: refusedBy('ban') },
    ...(hasOther && { other: sum(({ other = 0 }) => other) }),
  }
}

export const plansOf = (clients: Clients, hasBefore: boolean): ReplayedPlan[] =>
  [...Map.groupBy(clients, ({ plan }) => plan)].map(([plan, its]) => ({
    plan,
    clients: its.length,
    requests: its.reduce((sum, { requests }) => sum + requests, 0),
    ...outcomeOf(its, hasBefore),
  }))
