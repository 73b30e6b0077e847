/**
 * Which plan each client would need, and which limits each plan. Nothing is calculated: limits are tried, on the counting that decides
 * in the gateway, which is asked for the requests of each client and minute.
 */
import type { Config, Limits } from '../../../config/config.ts'
import { ClientState, transition } from '../../../state/memory/transition.ts'
import type { Statement, WindowReply } from '../../../state/quota.ts'
import type { ReplayedClient, ReplayReport, SuggestedPlan, Suggestions } from '../report.ts'
import type { Demand } from './demand.ts'

/** Limits are searched until those that are so much lower refuse too many. */
const NEAR = 1.01

export interface Asked {
  readonly config: Config
  readonly demand: Demand
  /** As many as the demand has, in its numbers. */
  readonly clients: readonly ReplayedClient[]
  /** How much of a plan's requests is to be refused, from 0 to 1. */
  readonly share: number
}

interface Tried extends Asked {
  /** Requests of each client in the demand, which has not all of them where they were too many. */
  readonly kept: readonly number[]
}

/** The report with what was found out. */
export function withSuggestions(report: ReplayReport, asked: Asked): ReplayReport {
  const { planOf, ...suggestions } = suggest(asked)
  const plans = new Map(asked.clients.map((client, number) => [client, planOf[number] ?? null]))
  const clients = report.clients.map((client) => ({
    ...client,
    suggest: plans.get(client) ?? null,
  }))
  return { ...report, clients, suggestions }
}

/** planOf: by the number of a client; null: no plan would do, or nothing of it was kept to try. */
export function suggest(
  asked: Asked,
): Suggestions & { readonly planOf: readonly (string | null)[] } {
  const { demand, share, clients } = asked
  const kept = clients.map(() => 0)
  demand.each((client, requests) => (kept[client] = (kept[client] ?? 0) + requests))
  const planOf = smallestPlans({ ...asked, kept })
  const searches = limitsAtShare({ ...asked, kept })
  const plans = [...new Set(clients.map(({ plan }) => plan))].map((plan) =>
    planSuggestion(
      plan,
      asked,
      searches.find((search) => search.plan === plan),
    ),
  )
  const { untilMs } = demand
  const until = untilMs === undefined ? null : new Date(untilMs).toISOString()
  return { share, until, plans, planOf }
}

/** What one client is counted under in one pass, and what was answered to its latest call. */
interface Trial {
  readonly state: ClientState
  sequence: number
  minute: Statement
  day: Statement
}

/** refused: called with how many of its requests the client is refused. limitsOf: undefined where a client is not to be tried any more. */
function tryLimits(
  { demand, clients }: Asked,
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

/** The requests of one minute as one call, as a gateway makes it of those that wait. */
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

/** One pass a plan, the smallest first; who has found his, or is refused by this one, is left out of the rest of it. */
function smallestPlans(asked: Tried): (string | null)[] {
  const found = asked.clients.map((): string | null => null)
  const isTried = asked.kept.map((requests) => requests > 0 || asked.demand.untilMs === undefined)
  for (const { name, limits } of ownPlans(asked.config)) {
    const mayDo = found.map((plan, client) => plan === null && isTried[client] === true)
    tryLimits(
      asked,
      (client) => (mayDo[client] ? limits : undefined),
      (client) => (mayDo[client] = false),
    )
    for (const [client, does] of mayDo.entries()) if (does) found[client] = name
  }
  return found
}

/** A plan under search: limits in the proportion of its own, named by their requests a day. */
interface Search {
  readonly plan: string
  readonly limits: Limits
  readonly clients: readonly number[]
  readonly requests: number
  readonly mostRefused: number
  /** Refuses too many. */
  tooLow: number
  /** The lowest that is known not to, and what it refuses. */
  enough: number
  refused: number
}

function searchOf({ clients, share, kept }: Tried, plan: string, limits: Limits): Search {
  const own = [...clients.keys()].filter((client) => clients[client]?.plan === plan)
  const requests = own.reduce((sum, client) => sum + (kept[client] ?? 0), 0)
  const mostRefused = share * requests
  // Twice of what refuses nobody: so it is never the answer itself, untried.
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

/** All plans at once: each pass tries the middle of what is left of each, on a scale of powers. */
function limitsAtShare(asked: Tried): Search[] {
  const searches = ownPlans(asked.config).map(({ name, limits }) => searchOf(asked, name, limits))
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
      asked,
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

function planSuggestion(plan: string, { config, clients }: Asked, search?: Search): SuggestedPlan {
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

/** The lowest value that so many percent of all are not above. */
function percentiles(values: readonly number[]): SuggestedPlan['peaks']['minute'] {
  const sorted = values.toSorted((one, other) => one - other)
  const at = (percent: number): number =>
    sorted[Math.max(0, Math.ceil((sorted.length * percent) / 100) - 1)] ?? 0
  return { p50: at(50), p95: at(95), p99: at(99) }
}
