/** Counts the requests of each client, as the report has them, sums them up, and counts those of all over time. */
import { MINUTE_MS, perWindow, windows } from '../../config/time.ts'
import { sum } from '../../insight/format.js'
import type { Decided } from './policy.ts'
import type { Outcome, PerRefusal, ReplayedClient, ReplayedPlan, ReplayReport } from './report.ts'

type Mutable<T> = {
  -readonly [Name in keyof T]: T[Name] extends object ? Mutable<T[Name]> : T[Name]
}

const perRefusal = <Value>(valueOf: (by: keyof PerRefusal<Value>) => Value): PerRefusal<Value> => ({
  ...perWindow(({ name }) => valueOf(name)),
  ban: valueOf('ban'),
})

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
      ...sumOf([], this.#hasBefore),
      first: perRefusal(() => null),
      ...(this.#hasBefore && { before: sumOf([], true) }),
      peak: perWindow(() => 0),
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

export const refusedOf = ({ refused, other = 0 }: Outcome): number => sum(refused) + other

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

function sumOf(outcomes: readonly Outcome[], hasOther: boolean): Mutable<Outcome> {
  const sum = (of: (outcome: Outcome) => number): number =>
    outcomes.reduce((all, outcome) => all + of(outcome), 0)
  return {
    admitted: sum(({ admitted }) => admitted),
    refused: perRefusal((by) => sum(({ refused }) => refused[by])),
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

const MOST_STEPS = 2_000

/** Counts decisions over the time of the log, in steps of a minute, or in longer ones if there were too many. */
export class OverTime {
  #fromMs: number | undefined
  #stepMs = MINUTE_MS
  #steps = 0
  readonly #now = columns()
  readonly #before = columns()

  add(atMs: number, decided: Decided, before: Decided | undefined): void {
    this.#fromMs ??= Math.floor(atMs / MINUTE_MS) * MINUTE_MS
    let step = Math.max(0, Math.floor((atMs - this.#fromMs) / this.#stepMs))
    while (step >= MOST_STEPS) {
      this.#widen()
      step = Math.floor(step / 2)
    }
    this.#steps = Math.max(this.#steps, step + 1)
    const now = this.#now[decided]
    now[step] = (now[step] ?? 0) + 1
    if (before === undefined) return
    const earlier = this.#before[before]
    earlier[step] = (earlier[step] ?? 0) + 1
  }

  report(hasBefore: boolean): ReplayReport['overTime'] {
    const shown = (column: Float64Array) => [...column.subarray(0, this.#steps)]
    const refused = (columns: Columns) => perRefusal((by) => shown(columns[by]))
    return {
      from: this.#fromMs === undefined ? null : new Date(this.#fromMs).toISOString(),
      stepSeconds: this.#stepMs / 1000,
      admitted: shown(this.#now.admitted),
      ...refused(this.#now),
      ...(hasBefore && { before: refused(this.#before) }),
    }
  }

  #widen(): void {
    for (const column of [...Object.values(this.#now), ...Object.values(this.#before)])
      for (let step = 0; step < MOST_STEPS; step++)
        column[step] =
          step < MOST_STEPS / 2 ? (column[2 * step] ?? 0) + (column[2 * step + 1] ?? 0) : 0
    this.#stepMs *= 2
    this.#steps = Math.ceil(this.#steps / 2)
  }
}

type Columns = Record<Decided, Float64Array>

const columns = (): Columns => {
  const column = (): Float64Array => new Float64Array(MOST_STEPS)
  return { admitted: column(), ...perRefusal(column), free: column() }
}
