/**
 * Finds the plan that each client needs, and limits for each plan. Limits are not calculated but tried: the counting that decides in
 * the gateway is asked for the requests of each client and minute.
 */
import type { Config, Limits } from '../../../config/config.ts'
import { ClientState, transition } from '../../../state/memory/transition.ts'
import type { Statement, WindowReply } from '../../../state/quota.ts'
import type { ReplayedClient, ReplayReport, SuggestedPlan, Suggestions } from '../report.ts'
import type { Demand } from './demand.ts'

/** A search ends when limits that are lower by this factor refuse too many. */
const NEAR = 1.01

export interface Basis {
  readonly config: Config
  readonly demand: Demand
  /** All clients of the demand, in the order of their numbers there. */
  readonly clients: readonly ReplayedClient[]
  /** Share of a plan's requests that may be refused, from 0 to 1. */
  readonly share: number
}

interface SearchBasis extends Basis {
  /** Requests of each client in the demand, which lacks some if there were too many. */
  readonly kept: readonly number[]
}

export function withSuggestions(report: ReplayReport, basis: Basis): ReplayReport {
  const { planOf, ...suggestions } = suggest(basis)
  const plans = new Map(basis.clients.map((client, number) => [client, planOf[number] ?? null]))
  const clients = report.clients.map((client) => ({
    ...client,
    suggest: plans.get(client) ?? null,
  }))
  return { ...report, clients, suggestions }
}

/** planOf: the plan of each client by its number; null: no plan is large enough, or no request of the client was kept. */
export function suggest(
  basis: Basis,
): Suggestions & { readonly planOf: readonly (string | null)[] } {
  const { demand, share, clients } = basis
  const kept = clients.map(() => 0)
  demand.each((client, requests) => (kept[client] = (kept[client] ?? 0) + requests))
  const planOf = smallestPlans({ ...basis, kept })
  const searches = limitsAtShare({ ...basis, kept })
  const plans = [...new Set(clients.map(({ plan }) => plan))].map((plan) =>
    planSuggestion(
      plan,
      basis,
      searches.find((search) => search.plan === plan),
    ),
  )
  const { untilMs } = demand
  const until = untilMs === undefined ? null : new Date(untilMs).toISOString()
  return { share, until, plans, planOf }
}

/** The counts of one client in one pass, and the latest reply for it. */
interface Trial {
  readonly state: ClientState
  sequence: number
  minute: Statement
  day: Statement
}

/** Tries limits on the demand. limitsOf: undefined leaves a client out. refused: called with the number of requests that a client is refused. */
function tryLimits(
  { demand, clients }: Basis,
  limitsOf: (client: number) => Limits | undefined,
  refused: (client: number, requests: number) => void,
): void {
  const trials = clients.map((): Trial | undefined => undefined)
  demand.each((client, requests, atMs) => {
    const limits = limitsOf(client)
    if (limits === undefined) return
    const none = { index: 0, used: 0, held: 0 }
    const trial = (trials[client] ??= {
      state: new ClientState(),
      sequence: 0,
      minute: none,
      day: none,
    })
    const admitted = take(trial, { requests, limits, atMs })
    if (admitted < requests) refused(client, requests - admitted)
  })
}

/** Takes tokens for the requests of one minute in one call, as a gateway does for those that wait. Returns how many are admitted. */
function take(
  trial: Trial,
  { requests, limits, atMs }: { requests: number; limits: Limits; atMs: number },
): number {
  const { minute, day } = trial
  trial.sequence += 1
  const request = { client: '', process: '', sequence: trial.sequence, limits, minute, day }
  const need = { ...request, need: requests, want: requests }
  const reply = transition(trial.state, need, atMs, false)
  const before = reply.minute.index === minute.index ? minute.held : 0
  const spent = ({ index, held }: WindowReply): Statement => ({ index, used: held, held })
  trial.minute = spent(reply.minute)
  trial.day = spent(reply.day)
  return reply.minute.held - before
}

const ownPlans = ({ plans }: Config): readonly { name: string; limits: Limits }[] =>
  [...plans.values()]
    .flatMap(({ name, limits }) => (limits === undefined ? [] : [{ name, limits }]))
    .toSorted(
      ({ limits: one }, { limits: other }) =>
        one.perDay - other.perDay || one.perMinute - other.perMinute,
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

/** The search for the limits of a plan. They keep the proportion of its own limits; the bounds are requests a day. */
interface Search {
  readonly plan: string
  readonly limits: Limits
  readonly clients: readonly number[]
  readonly requests: number
  readonly mostRefused: number
  /** The highest bound that is known to refuse too many. */
  tooLow: number
  /** The lowest bound that is known not to, and the requests that it refuses. */
  enough: number
  refused: number
}

function searchOf({ clients, share, kept }: SearchBasis, plan: string, limits: Limits): Search {
  const own = [...clients.keys()].filter((client) => clients[client]?.plan === plan)
  const requests = own.reduce((sum, client) => sum + (kept[client] ?? 0), 0)
  const mostRefused = share * requests
  // Limits that refuse nobody are doubled, so that the answer is always one that was tried.
  const enough = own.reduce((most, client) => {
    const { day = 0, minute = 0 } = clients[client]?.peak ?? {}
    return Math.max(most, 2 * day, (2 * minute * limits.perDay) / limits.perMinute)
  }, 2)
  const bounds = { tooLow: 0, enough: Math.ceil(enough), refused: 0 }
  return { plan, limits, clients: own, requests, mostRefused, ...bounds }
}

const limitsAt = ({ limits }: Search, perDay: number): Limits => ({
  perMinute: Math.max(1, Math.round((perDay * limits.perMinute) / limits.perDay)),
  perDay,
})

const isOpen = ({ requests, tooLow, enough }: Search): boolean =>
  requests > 0 && enough - tooLow > 1 && enough > tooLow * NEAR

/** Searches for all plans at once; each pass tries the geometric mean of each plan's bounds. */
function limitsAtShare(basis: SearchBasis): Search[] {
  const searches = ownPlans(basis.config).map(({ name, limits }) => searchOf(basis, name, limits))
  for (let open = searches; open.length > 0; open = searches.filter(isOpen)) {
    const tries = open.map((search) => {
      const perDay = Math.round(Math.sqrt(Math.max(1, search.tooLow) * search.enough))
      return { search, perDay, limits: limitsAt(search, perDay), refused: 0 }
    })
    const trialOf = new Map(
      tries.flatMap((trial) => trial.search.clients.map((client) => [client, trial] as const)),
    )
    const isTooMuch = ({ refused, search }: (typeof tries)[number]): boolean =>
      refused > search.mostRefused
    tryLimits(
      basis,
      (client) => {
        const trial = trialOf.get(client)
        return trial === undefined || isTooMuch(trial) ? undefined : trial.limits
      },
      (client, requests) => {
        const trial = trialOf.get(client)
        if (trial !== undefined) trial.refused += requests
      },
    )
    for (const trial of tries) {
      const { search, perDay, refused } = trial
      if (isTooMuch(trial)) search.tooLow = perDay
      else Object.assign(search, { enough: perDay, refused })
    }
  }
  return searches.filter(({ requests }) => requests > 0)
}

function planSuggestion(plan: string, { config, clients }: Basis, search?: Search): SuggestedPlan {
  const own = clients.filter((client) => client.plan === plan)
  const requests = own.reduce((sum, client) => sum + client.requests, 0)
  return {
    plan,
    clients: own.length,
    requests,
    limits: config.plans.get(plan)?.limits ?? null,
    peaks: {
      minute: percentiles(own.map(({ peak }) => peak.minute)),
      day: percentiles(own.map(({ peak }) => peak.day)),
    },
    atShare: search
      ? {
          ...limitsAt(search, search.enough),
          refused: search.refused,
          share: search.refused / search.requests,
        }
      : null,
  }
}

/** The lowest values that 50, 95 and 99 percent of all do not exceed. */
function percentiles(values: readonly number[]): SuggestedPlan['peaks']['minute'] {
  const sorted = values.toSorted((one, other) => one - other)
  const at = (percent: number): number =>
    sorted[Math.max(0, Math.ceil((sorted.length * percent) / 100) - 1)] ?? 0
  return { p50: at(50), p95: at(95), p99: at(99) }
}
