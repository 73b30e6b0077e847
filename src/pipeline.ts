/** THE request, top to bottom. The order of the stages is written here and nowhere else. */
import type { Connections } from './adapters/connections.ts'
import type { Exchange } from './exchange.ts'
import type { Lessee } from './quota/protocol.ts'
import { isRefusal, refusalKinds, refuse, type Refusal } from './refusals.ts'
import type { CheckFraming, Framing } from './rules/framing.ts'
import type { CheckTarget } from './rules/target.ts'
import type { Arrival } from './stages/accept.ts'
import type { createAuthenticate } from './stages/authenticate.ts'
import type { createCheckBan } from './stages/check-ban.ts'
import type { createForward } from './stages/forward.ts'
import type { createMatchRoute } from './stages/match-route.ts'
import { answerAsterisk, respond } from './stages/respond.ts'
import { tellQuota, type createTakeQuota } from './stages/take-quota.ts'

export interface Stages {
  readonly connections: Connections
  readonly lessee: Lessee
  readonly checkFraming: CheckFraming
  readonly checkTarget: CheckTarget
  accept(arrival: Arrival): Exchange
  readonly matchRoute: ReturnType<typeof createMatchRoute>
  readonly authenticate: ReturnType<typeof createAuthenticate>
  readonly checkBan: ReturnType<typeof createCheckBan>
  readonly takeQuota: ReturnType<typeof createTakeQuota>
  readonly forward: ReturnType<typeof createForward>
  /** Quota headers of a caller that was not authenticated, charging nothing. */
  tellAnonymous(exchange: Exchange): Promise<void>
  onBug(exchange: Exchange, error: unknown): void
}

/** Takes a request to its end; never rejects. */
export type Handle = (arrival: Omit<Arrival, 'framing'>) => Promise<void>

export function createPipeline(stages: Stages): Handle {
  return async function handle(arrival) {
    // Bytes after a request that closes its connection are not requests.
    if (stages.connections.isClosing(arrival.request.socket)) return
    const framing = stages.checkFraming(arrival.request)
    const exchange = stages.accept({ ...arrival, framing })
    try {
      const refusal = await walk(stages, exchange, framing)
      if (refusal !== undefined) respond(exchange, refusal)
    } catch (error) {
      stages.onBug(exchange, error)
      respond(exchange, refuse('service_unavailable', { cause: 'internal error' }))
    }
  }
}

/** Nothing is awaited that is already known: with the answer in memory the whole walk is synchronous. */
async function walk(
  stages: Stages,
  exchange: Exchange,
  framing: Framing | Refusal,
): Promise<Refusal | undefined> {
  // Framing first: of a request that two parsers could read differently nothing else can be believed.
  if (isRefusal(framing)) return beforeAuthentication(stages, exchange, framing)
  if (exchange.tunnel !== undefined && exchange.hasBody) {
    return beforeAuthentication(stages, exchange, BODY_BEHIND_UPGRADE)
  }
  const target = stages.checkTarget(exchange.request)
  if (isRefusal(target)) return beforeAuthentication(stages, exchange, target)
  if (target.asterisk) {
    await stages.tellAnonymous(exchange)
    answerAsterisk(exchange)
    return undefined
  }

  // The route comes before the credential so that its lifecycle headers stand on every answer, a 401 included ...
  const verdict = stages.matchRoute(exchange, target.path)
  if (verdict.outside) return beforeAuthentication(stages, exchange, verdict.refusal ?? NOT_FOUND)
  const found = stages.authenticate(exchange, framing)
  const caller = found instanceof Promise ? await found : found
  if (isRefusal(caller)) return caller

  // A ban costs nothing to answer, so it comes before all that costs something.
  const ban = stages.checkBan(exchange, caller)
  if (ban !== undefined) return ban

  // ... but its refusal comes after: who has no key learns nothing of the routes. It is free, so before the quota.
  if (verdict.refusal !== undefined) {
    tellQuota(exchange, caller, await stages.lessee.look(caller.clientId, caller.limits))
    return verdict.refusal
  }
  const taken = stages.takeQuota(exchange, caller)
  const decision = taken instanceof Promise ? await taken : taken
  if (isRefusal(decision)) return decision
  stages.forward({ exchange, framing, target: target.raw, caller })
  return undefined
}

const NOT_FOUND = refuse('not_found')
/** Node before 24.9 hands every upgrade over with its bare socket, and has not read where a body ends. */
const BODY_BEHIND_UPGRADE = refuse('invalid_request', { cause: 'a body behind an Upgrade field' })

async function beforeAuthentication(
  { tellAnonymous, connections }: Stages,
  exchange: Exchange,
  refusal: Refusal,
): Promise<Refusal> {
  // Before anything is awaited: what follows in the same packet may be the smuggled half of this request.
  if (refusalKinds[refusal.refusal].close) connections.of(exchange.request.socket).closing = true
  await tellAnonymous(exchange)
  return refusal
}
