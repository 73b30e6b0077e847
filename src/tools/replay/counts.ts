/** Counts the requests of each client, as the report has them, and sums them up. */
import { perWindow, windows } from '../../config/time.ts'
import type { Decided } from './policy.ts'
import type { Outcome, ReplayedClient, ReplayedPlan, ReplayReport } from './report.ts'

type Mutable<T> = {
  -readonly [Name in keyof T]: T[Name] extends object ? Mutable<T[Name]> : T[Name]
}

export class ClientCounts {
  /** Clients in the order of their numbers. */
  readonly all: Mutable<ReplayedClient>[] = []
  /** The latest windows of each client, and their requests. */
  readonly #latest: ReturnType<typeof newWindows>[] = []
  readonly #numbers = new Map<string, number>()
  readonly #hasBefore: boolean

  constructor(hasBefore: boolean) {
    this.#hasBefore = hasBefore
  }

  /** Returns the number of a client, which its id identifies. */
  numberOf(client: string, plan: string): number {
    const known = this.#numbers.get(client)
    if (known !== undefined) return known
    this.#numbers.set(client, this.all.length)
    this.#latest.push(newWindows())
    const number = this.all.push({
      client,
      plan,
      requests: 0,
      ...this.#noOutcome(),
      first: { minute: null, day: null, ban: null },
      ...(this.#hasBefore && { before: this.#noOutcome() }),
      peak: { minute: 0, day: 0 },
    })
    return number - 1
  }

  /** before: the decision of the old configuration, if there is one. */
  add(number: number, atMs: number, decided: Decided, before: Decided | undefined): void {
    const client = this.all[number]
    const latest = this.#latest[number]
    if (client === undefined || latest === undefined) return
    client.requests++
    addTo(client, decided)
    if (client.before !== undefined && before !== undefined) addTo(client.before, before)
    if (decided !== 'admitted' && decided !== 'free')
      client.first[decided] ??= new Date(Math.floor(atMs)).toISOString()
    for (const { name: window, lengthMs } of windows) {
      const requests = requestsIn(latest[window], Math.floor(atMs / lengthMs))
      client.peak[window] = Math.max(client.peak[window], requests)
    }
  }

  #noOutcome(): Mutable<Outcome> {
    const refused = { minute: 0, day: 0, ban: 0 }
    return { admitted: 0, refused, ...(this.#hasBefore && { other: 0 }) }
  }
}

function addTo(outcome: Mutable<Outcome>, decided: Decided): void {
  if (decided === 'admitted') outcome.admitted++
  else if (decided !== 'free') outcome.refused[decided]++
  else if (outcome.other !== undefined) outcome.other++
}

const newWindows = () => perWindow(() => ({ index: -1, requests: 0 }))

/** Counts a request in its window. One that comes late, when its window is over, is not counted. */
function requestsIn(latest: { index: number; requests: number }, index: number): number {
  if (index > latest.index) Object.assign(latest, { index, requests: 0 })
  if (index === latest.index) latest.requests++
  return latest.requests
}

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
