/** Finds the plan that each client needs, and limits for each plan. Limits are not calculated but tried on the requests of each client and minute, which are kept for it. */
import type { Config, Limits } from '../../config/config.ts'
import { byLimit, MINUTE_MS, perWindow, windows } from '../../config/time.ts'
import type { Percentiles, ReplayedClient, SuggestedPlan, Suggestions } from './report.ts'

/** An entry of four bytes counts up to 255 requests of one client in one minute. */
const MOST_ENTRIES = 32 * 1024 * 1024
const MOST_OF_AN_ENTRY = 255
const SHIFT = MOST_OF_AN_ENTRY + 1

/** The requests of all clients by minute. Clients are numbers from 0 on, below 2^24. */
export class Demand {
  /** Minutes since 1970 with their entries, in order. */
  readonly #minutes: { readonly minute: number; readonly entries: Uint32Array }[] = []
  #entries = 0
  /** The current minute, and its requests by client. */
  #minute = -Infinity
  readonly #requests = new Map<number, number>()
  /** Unix time in ms up to which the demand is complete; undefined: all of it is. Written by #begin. */
  untilMs: number | undefined
  readonly #mostEntries

  constructor(mostEntries = MOST_ENTRIES) {
    this.#mostEntries = mostEntries
  }

  /** Adds a request; a late one counts in the current minute. */
  add(client: number, atMs: number): void {
    const minute = Math.floor(atMs / MINUTE_MS)
    if (minute > this.#minute) this.#begin(minute)
    this.#requests.set(client, (this.#requests.get(client) ?? 0) + 1)
  }

  /** Calls for each client of each minute, in the order of time; atMs: beginning of the minute in Unix time. A client may come more than once in a minute. */
  each(call: (client: number, requests: number, atMs: number) => void): void {
    this.#begin(this.#minute)
    for (const { minute, entries } of this.#minutes)
      for (const entry of entries)
        call(Math.floor(entry / SHIFT), entry % SHIFT, minute * MINUTE_MS)
  }

  #begin(minute: number): void {
    const entries: number[] = []
    for (const [client, requests] of this.#requests)
      for (let left = requests; left > 0; left -= MOST_OF_AN_ENTRY)
        entries.push(client * SHIFT + Math.min(left, MOST_OF_AN_ENTRY))
    this.#requests.clear()
    if (this.#entries + entries.length > this.#mostEntries)
      this.untilMs ??= this.#minute * MINUTE_MS
    if (this.untilMs === undefined && entries.length > 0) {
      this.#minutes.push({ minute: this.#minute, entries: Uint32Array.from(entries) })
      this.#entries += entries.length
    }
    this.#minute = minute
  }
}

/** A search ends when limits that are lower by this factor refuse too many. */
const NEAR = 1.01

interface Basis {
  readonly config: Config
  readonly demand: Demand
  /** All clients of the demand, in the order of their numbers there. */
  readonly clients: readonly ReplayedClient[]
  readonly share: number
}

/** kept: requests of each client in the demand, which lacks some if there were too many. */
type SearchBasis = Basis & { readonly kept: readonly number[] }

/** planOf: the plan of each client by its number; null: no plan is large enough, or no request of the client was kept. */
export function suggest(
  basis: Basis,
): Suggestions & { readonly planOf: readonly (string | null)[] } {
  const { demand, share, clients } = basis
  const kept = clients.map(() => 0)
  demand.each((client, requests) => (kept[client] = (kept[client] ?? 0) + requests))
  const search = { ...basis, kept }
  const planOf = smallestPlans(search)
  const names = new Set(clients.map(({ plan }) => plan))
  const plans = [...names].map((plan) => planSuggestion(search, plan))
  const { untilMs } = demand
  const until = untilMs === undefined ? null : new Date(untilMs).toISOString()
  return { share, until, plans, planOf }
}

/** Tries limits on the demand. limitsOf: undefined leaves a client out. refused: called with the number of requests that a client is refused. */
function tryLimits(
  { demand, clients }: Basis,
  limitsOf: (client: number) => Limits | undefined,
  refused: (client: number, requests: number) => void,
): void {
  const numbers = () => new Float64Array(clients.length)
  // The latest of each window for each client, and what it has used there.
  const latest = windows.map((window) => ({ ...window, index: numbers(), used: numbers() }))
  demand.each((client, requests, atMs) => {
    const limits = limitsOf(client)
    if (limits === undefined) return
    let admitted = requests
    for (const { limit, lengthMs, index, used } of latest) {
      const current = Math.floor(atMs / lengthMs)
      if (index[client] !== current) used[client] = 0
      index[client] = current
      admitted = Math.max(0, Math.min(admitted, limits[limit] - (used[client] ?? 0)))
    }
    for (const { used } of latest) used[client] = (used[client] ?? 0) + admitted
    if (admitted < requests) refused(client, requests - admitted)
  })
}

const ownPlans = ({ plans }: Config): readonly { name: string; limits: Limits }[] =>
  [...plans.values()]
    .flatMap(({ name, limits }) => (limits === undefined ? [] : [{ name, limits }]))
    .toSorted(({ limits: one }, { limits: other }) =>
      windows.reduceRight((order, { limit }) => order || one[limit] - other[limit], 0),
    )

/** Tries one plan per pass, the smallest first. A pass leaves out clients that have a plan, or that it has refused something. */
function smallestPlans(basis: SearchBasis): (string | null)[] {
  const found = basis.clients.map((): string | null => null)
  const isTried = basis.kept.map((requests) => requests > 0 || basis.demand.untilMs === undefined)
  for (const { name, limits } of ownPlans(basis.config)) {
    const mayDo = found.map((plan, client) => plan === null && isTried[client] === true)
    tryLimits(
      basis,
      (client) => (mayDo[client] ? limits : undefined),
      (client) => (mayDo[client] = false),
    )
    for (const [client, does] of mayDo.entries()) if (does) found[client] = name
  }
  return found
}

/** Limits of a plan, in the proportion of its own, that refuse its clients at most the share; null: they sent nothing. */
function limitsAtShare(basis: SearchBasis, plan: string, limits: Limits): SuggestedPlan['atShare'] {
  const { clients, share, kept } = basis
  const isOwn = clients.map((client) => client.plan === plan)
  const requests = kept.reduce((sum, its, client) => sum + (isOwn[client] ? its : 0), 0)
  if (requests === 0) return null
  const limitsAt = (perDay: number): Limits =>
    byLimit(({ limit }) => Math.max(1, Math.round((perDay * limits[limit]) / limits.perDay)))
  const mostRefused = share * requests
  // The highest limit a day that is known to refuse too many, and the lowest that is known not to, with the requests that it refuses.
  let tooLow = 0
  // Limits that refuse nobody are doubled, so that the answer is always one that was tried.
  let enough = Math.ceil(
    clients.reduce((most, { peak }, client) => {
      const needed = windows.map(({ name, limit }) => (peak[name] * limits.perDay) / limits[limit])
      return isOwn[client] ? Math.max(most, 2 * Math.max(...needed)) : most
    }, 2),
  )
  let refused = 0
  while (enough - tooLow > 1 && enough > tooLow * NEAR) {
    const perDay = Math.round(Math.sqrt(Math.max(1, tooLow) * enough))
    const tried = limitsAt(perDay)
    let sum = 0
    tryLimits(
      basis,
      (client) => (isOwn[client] && sum <= mostRefused ? tried : undefined),
      (_, more) => (sum += more),
    )
    if (sum > mostRefused) tooLow = perDay
    else [enough, refused] = [perDay, sum]
  }
  return { ...limitsAt(enough), refused, share: refused / requests }
}

function planSuggestion(basis: SearchBasis, plan: string): SuggestedPlan {
  const own = basis.clients.filter((client) => client.plan === plan)
  const limits = basis.config.plans.get(plan)?.limits ?? null
  return {
    plan,
    clients: own.length,
    requests: own.reduce((sum, client) => sum + client.requests, 0),
    limits,
    peaks: perWindow(({ name }) => percentiles(own.map(({ peak }) => peak[name]))),
    atShare: limits && limitsAtShare(basis, plan, limits),
  }
}

/** The lowest values that 50, 95 and 99 percent of all do not exceed. */
function percentiles(values: readonly number[]): Percentiles {
  const sorted = values.toSorted((one, other) => one - other)
  const at = (percent: number): number =>
    sorted[Math.max(0, Math.ceil((sorted.length * percent) / 100) - 1)] ?? 0
  return { p50: at(50), p95: at(95), p99: at(99) }
}
