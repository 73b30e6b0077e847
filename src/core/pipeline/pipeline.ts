/**
 * Takes a request through all stages. Their order is decided here; `finders` of insight/explain/findings.ts lists it once more, for
 * explanations.
 */
import type { Log } from '../record/log.ts'
import type { Admission } from '../quota/decision.ts'
import type { Caller } from '../rules/credentials.ts'
import { TurnStage } from '../http/turn-stages.ts'
import { fieldOf } from '../rules/field-names.ts'
import { checkFraming, type Framing } from '../rules/framing.ts'
import { isRefusal, refuse, type Refusal } from '../rules/refusals.ts'
import { checkTarget } from '../rules/target.ts'
import { whenKnown } from '../rules/when-known.ts'
import { authenticate, peekAnonymous } from './authenticate.ts'
import { checkBan, checkDeprecation, shedLoad } from './check-ban.ts'
import { Exchange, type Arrival, type Judged, type PipelineParts, type Policy } from './exchange.ts'
import { forward, type Carrier } from './forward.ts'
import { answerPreflight, matchRoute, OUTSIDE } from './match-route.ts'
import { receiveBody } from './receive-body.ts'
import { answerAsterisk, respond } from './respond.ts'
import { giveUp, setQuota, takeQuota } from './take-quota.ts'
import { takeTurn } from './take-turn.ts'

/** Takes a request to its end, in the same call where nothing has to be awaited; never throws or rejects. */
export function handle(
  parts: PipelineParts,
  policy: Policy & { readonly carrier: Carrier },
  arrival: Arrival,
): Promise<void> | undefined {
  const { connections, log, tracing } = parts
  const framing = checkFraming(arrival.request, policy.terms.server.limits)
  arrival.connection.protocol?.frame?.(isRefusal(framing) ? undefined : framing)
  const exchange = accept(parts, arrival, framing, policy)
  if (tracing.isOn) {
    const fields = isRefusal(framing) ? undefined : arrival.request.rawHeaders
    exchange.trace = tracing.begin(fields, exchange.sender.peerTrusted)
  }
  const end = (outcome: End): void => {
    if (outcome === undefined) return
    if (!isRefusal(outcome)) return forward(parts, policy.carrier, exchange, outcome)
    giveUp(policy, exchange)
    respond(exchange, outcome)
  }
  try {
    const outcome = walk(policy, connections, exchange, framing)
    if (outcome instanceof Promise)
      return outcome.then(end).catch((error: unknown) => failed(log, exchange, error))
    end(outcome)
  } catch (error) {
    failed(log, exchange, error)
  }
  return undefined
}

/** Makes the exchange with its id and client address, and ensures that it is recorded whatever happens to it. */
function accept(
  parts: PipelineParts,
  arrival: Arrival,
  framing: Framing | Refusal,
  policy: Policy,
): Exchange {
  const exchange = new Exchange(parts.requestId, arrival, framing, policy)
  const { response } = exchange
  parts.connections.began(exchange)
  response.once('close', () => {
    if (!response.writableFinished && exchange.status !== 101) {
      // The client has left, so nobody waits for the backend's answer.
      giveUp(parts, exchange)
      exchange.cause ??= 'the client left before the answer was complete'
      if (exchange.status === 0) exchange.status = 499
    }
    exchange.turn?.giveBack()
    parts.connections.ended(exchange)
    exchange.goOn()
    exchange.endedMs = performance.now()
    recording.add(() => record(parts, exchange))
  })
  // Else keep-alive clients would delay the end of the process. What a client had already sent is answered all the same.
  const { isOutdated, protocol } = arrival.connection
  if (isOutdated || (parts.isDraining && protocol?.hasMore !== true))
    response.shouldKeepAlive = false
  return exchange
}

/** Runs exactly once for every exchange: one log line and one set of metrics. */
function record(parts: PipelineParts, exchange: Exchange): void {
  const { log, metrics, tally, tracing, recent, deprecated } = parts
  const { endedMs = performance.now() } = exchange
  const nowMs = Date.now()
  const totalMs = endedMs - exchange.startedMs
  const { backendStartedMs, backendEndedMs = endedMs } = exchange
  const backendMs = backendStartedMs && backendEndedMs - backendStartedMs
  const gatewayMs = totalMs - (backendMs ?? 0) - exchange.waitedMs
  const { caller, route, trace } = exchange
  const isTunnel = exchange.status === 101
  if (caller !== undefined) {
    tally.done(caller, isTunnel ? undefined : totalMs, exchange.refusal?.code)
    if (route?.deprecated === true) {
      const agent = fieldOf(exchange.request.rawHeaders, 'user-agent')
      deprecated.called(route.name, caller.clientId, agent, nowMs)
    }
  }
  const times = { nowMs, totalMs, gatewayMs, backendMs }
  metrics.requests.done(exchange, times)
  if (trace !== undefined) tracing.ended(exchange, trace, endedMs)
  recent.note(exchange, times)
  log.access(exchange, times)
}

const recording = new TurnStage<() => void>('record', (record) => record())

function failed(log: Log, exchange: Exchange, error: unknown): void {
  log.internalError({ id: exchange.id, error })
  respond(exchange, refuse('service_unavailable', { cause: 'internal error' }))
}

/** The outcome of the walk: the caller whose request is to be forwarded, or a refusal; undefined when it was answered. */
type End = Caller | Refusal | undefined

/** Takes a request through the stages. With all answers in memory this is one synchronous call, which makes no promise. framing: as checked. */
export function walk(
  policy: Policy,
  connections: Pick<PipelineParts['connections'], 'prove'>,
  exchange: Exchange,
  framing: Framing | Refusal,
): End | Promise<End> {
  const { cors } = policy
  if (cors !== undefined)
    exchange.corsHeaders = cors.answerHeaders(fieldOf(exchange.request.rawHeaders, 'origin'))
  // Framing comes first: nothing can be believed in a request that two parsers could read differently.
  if (isRefusal(framing)) return beforeAuthentication(policy, exchange, framing)
  const { urlBytes } = policy.terms.server.limits
  const target = checkTarget(exchange.request, framing.host, exchange.proto, urlBytes)
  if (isRefusal(target)) return beforeAuthentication(policy, exchange, target)
  if (target.path === '*')
    return whenKnown(peekAnonymous(policy, exchange.sender.key), (headers) => {
      exchange.quotaHeaders = headers
      answerAsterisk(exchange)
      return undefined
    })

  exchange.target = target.raw
  // The route is matched before the credential, so that its lifecycle headers stand on a 401 too; its refusal is kept for judge().
  const unrouted = matchRoute(policy, exchange, target.path)
  if (unrouted === OUTSIDE) return beforeAuthentication(policy, exchange, unrouted)
  const preflight = answerPreflight(policy, exchange, target.path)
  if (preflight !== undefined) return isRefusal(preflight) ? preflight : undefined
  return whenKnown<Caller | Refusal, End>(authenticate(policy, exchange), (caller) => {
    if (isRefusal(caller)) return caller
    connections.prove(exchange.connection)
    return admit(policy, exchange, caller, unrouted)
  })
}

/** Goes on with an authenticated request. It and the next two make a closure only where something is awaited. */
function admit(policy: Policy, exchange: Exchange, caller: Caller, unrouted: Refusal | undefined) {
  const charged = judge(policy, exchange, caller, unrouted)
  if (!(charged instanceof Promise))
    return isRefusal(charged) ? charged : enter(policy, exchange, caller)
  return charged.then((known) => (isRefusal(known) ? known : enter(policy, exchange, caller)))
}

function enter(policy: Policy, exchange: Exchange, caller: Caller): End | Promise<End> {
  const turn = takeTurn(policy, exchange, caller)
  if (!(turn instanceof Promise)) return turn ?? receive(exchange, caller)
  return turn.then((refusal) => refusal ?? receive(exchange, caller))
}

function receive(exchange: Exchange, caller: Caller): End | Promise<End> {
  const received = receiveBody(exchange)
  return received === undefined ? caller : received.then((refusal) => refusal ?? caller)
}

/** Decides whether a caller is let through, and charges it then. routeRefusal: the result of match-route. */
export function judge(
  policy: Policy,
  exchange: Judged,
  caller: Caller,
  routeRefusal: Refusal | undefined,
): Admission | Refusal | Promise<Admission | Refusal> {
  // A ban costs nothing to answer, so it comes before all that costs something.
  const ban = checkBan(policy, exchange, caller)
  if (ban !== undefined) return ban
  // This is as cheap. Requests without a valid credential were refused at half of that lateness.
  const shed = shedLoad(policy, exchange, caller)
  if (shed !== undefined) return shed

  // The refusal of match-route is for callers with a valid credential alone, so that others cannot find out the routes. It charges
  // nothing, so it precedes the quota.
  const refusal = routeRefusal ?? checkDeprecation(policy, exchange, caller)
  if (refusal !== undefined) {
    return whenKnown(policy.lessee.peek(caller.clientId, caller.limits), (view) => {
      setQuota(exchange, caller, view)
      return refusal
    })
  }
  return takeQuota(policy, exchange, caller)
}

function beforeAuthentication(
  policy: Policy,
  exchange: Exchange,
  refusal: Refusal,
): Refusal | Promise<Refusal> {
  return whenKnown(peekAnonymous(policy, exchange.sender.key), (headers) => {
    exchange.quotaHeaders = headers
    return refusal
  })
}
