/** THE request, top to bottom. The order of the stages is written here and nowhere else. */
import type { Connections } from '../listeners/connections.ts'
import type { Exchange } from './exchange.ts'
import type { Lessee } from '../quota/protocol.ts'
import { isRefusal, refusalKinds, refuse, type Refusal } from '../rules/refusals.ts'
import type { CheckFraming, Framing } from '../rules/framing.ts'
import type { CheckTarget } from '../rules/target.ts'
import type { Arrival } from './accept.ts'
import type { createAuthenticate } from './authenticate.ts'
import type { createCheckBan } from './check-ban.ts'
import type { Admitted, createForward } from './forward.ts'
import type { createMatchRoute } from './match-route.ts'
import { answerAsterisk, respond } from './respond.ts'
import { tellQuota, type createTakeQuota } from './take-quota.ts'

export interface Stages {
  readonly connections: Connections<Exchange>
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

/** Takes a request to its end, at once where nothing is waited for; never throws or rejects. */
export type Handle = (arrival: Omit<Arrival, 'framing'>) => Promise<void> | undefined

export function createPipeline(stages: Stages): Handle {
  const failed = (exchange: Exchange, error: unknown): void => {
    stages.onBug(exchange, error)
    respond(exchange, refuse('service_unavailable', { cause: 'internal error' }))
  }
  return function handle(arrival) {
    // Bytes after a request that closes its connection are not requests.
    if (stages.connections.isClosing(arrival.request.socket)) return undefined
    const framing = stages.checkFraming(arrival.request)
    const exchange = stages.accept({ ...arrival, framing })
    const end = (refusal: Refusal | undefined): void => {
      if (refusal !== undefined) respond(exchange, refusal)
    }
    try {
      const refusal = walk(stages, exchange, framing)
      if (refusal instanceof Promise)
        return refusal.then(end).catch((error: unknown) => failed(exchange, error))
      end(refusal)
    } catch (error) {
      failed(exchange, error)
    }
    return undefined
  }
}

/** The refusal that ended the walk; undefined when the request was forwarded or answered. */
type End = Refusal | undefined

/** Nothing waits for what is already known: with all answers in memory the whole walk is one synchronous call, and no promise is made. */
function walk(stages: Stages, exchange: Exchange, framing: Framing | Refusal): End | Promise<End> {
  // Framing first: of a request that two parsers could read differently nothing else can be believed.
  if (isRefusal(framing)) return beforeAuthentication(stages, exchange, framing)
  if (exchange.tunnel !== undefined && exchange.hasBody) {
    return beforeAuthentication(stages, exchange, BODY_BEHIND_UPGRADE)
  }
  const target = stages.checkTarget(exchange.request)
  if (isRefusal(target)) return beforeAuthentication(stages, exchange, target)
  if (target.asterisk) {
    return stages.tellAnonymous(exchange).then(() => {
      answerAsterisk(exchange)
      return undefined
    })
  }

  // The route comes before the credential so that its lifecycle headers stand on every answer, a 401 included ...
  const verdict = stages.matchRoute(exchange, target.path)
  if (verdict.outside) return beforeAuthentication(stages, exchange, verdict.refusal ?? NOT_FOUND)
  const caller = stages.authenticate(exchange, framing)
  return whenKnown(caller, (known) =>
    isRefusal(known)
      ? known
      : walkOn(stages, { exchange, framing, target: target.raw, caller: known }, verdict.refusal),
  )
}

/** With a caller who is believed. */
function walkOn(
  stages: Stages,
  request: Admitted,
  routeRefusal: Refusal | undefined,
): End | Promise<End> {
  const { exchange, caller } = request
  // A ban costs nothing to answer, so it comes before all that costs something.
  const ban = stages.checkBan(exchange, caller)
  if (ban !== undefined) return ban

  // ... but its refusal comes after: who has no key learns nothing of the routes. It is free, so before the quota.
  if (routeRefusal !== undefined) {
    return whenKnown(stages.lessee.peek(caller.clientId, caller.limits), (view) => {
      tellQuota(exchange, caller, view)
      return routeRefusal
    })
  }
  return whenKnown(stages.takeQuota(exchange, caller), (decision) => {
    if (isRefusal(decision)) return decision
    stages.forward(request)
    return undefined
  })
}

function whenKnown<Known>(
  value: Known | Promise<Known>,
  goOn: (known: Known) => End | Promise<End>,
): End | Promise<End> {
  return value instanceof Promise ? value.then((known) => goOn(known)) : goOn(value)
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
  if (refusalKinds[refusal.code].close) connections.of(exchange.request.socket).closing = true
  await tellAnonymous(exchange)
  return refusal
}
