/**
 * Takes a request through all stages. Their order is decided here; `finders` of insight/explain/findings.ts lists it once more, for
 * explanations.
 */
import type { Arrival, Exchange, Judged, PipelineParts, Terms } from './exchange.ts'
import type { Log } from '../record/log.ts'
import type { Admission } from '../../state/quota.ts'
import { fieldOf } from '../rules/field-names.ts'
import { isRefusal, refuse, type Refusal } from '../rules/refusals.ts'
import type { ClientAddressOf } from '../rules/client-address.ts'
import type { CheckFraming, Framing } from '../rules/framing.ts'
import type { CheckTarget } from '../rules/target.ts'
import { whenKnown } from '../rules/when-known.ts'
import type { Cors } from '../rules/cors.ts'
import type { Caller } from '../rules/credentials.ts'
import { accept } from './accept.ts'
import type { createAuthenticate } from './authenticate.ts'
import type { createCheckBan, createCheckDeprecation, createShedLoad } from './check-ban.ts'
import type { createForward } from './forward.ts'
import { OUTSIDE, type createAnswerPreflight, type createMatchRoute } from './match-route.ts'
import type { createReceiveBody } from './receive-body.ts'
import { answerAsterisk, respond } from './respond.ts'
import { giveUp, setQuota, type Charges, type createTakeQuota } from './take-quota.ts'
import type { createTakeTurn } from './take-turn.ts'

/** The stages of one configuration; each request keeps those it began with. */
export interface Stages extends Charges {
  readonly terms: Terms
  readonly checkFraming: CheckFraming
  readonly checkTarget: CheckTarget
  readonly clientAddress: ClientAddressOf
  /** undefined: no page of another origin may read answers. */
  readonly cors: Cors | undefined
  readonly matchRoute: ReturnType<typeof createMatchRoute>
  readonly answerPreflight: ReturnType<typeof createAnswerPreflight> | undefined
  readonly authenticate: ReturnType<typeof createAuthenticate>
  readonly checkBan: ReturnType<typeof createCheckBan>
  readonly shedLoad: ReturnType<typeof createShedLoad>
  readonly checkDeprecation: ReturnType<typeof createCheckDeprecation>
  readonly takeQuota: ReturnType<typeof createTakeQuota>
  readonly takeTurn: ReturnType<typeof createTakeTurn>
  readonly receiveBody: ReturnType<typeof createReceiveBody>
  readonly forward: ReturnType<typeof createForward>
  /** Quota header fields of an address whose caller was not authenticated, flat; charges nothing. */
  peekAnonymous(addressKey: string): string[] | Promise<string[]>
}

/** Takes a request to its end, in the same call where nothing has to be awaited; never throws or rejects. */
export function handle(
  parts: PipelineParts,
  stages: Stages,
  arrival: Arrival,
): Promise<void> | undefined {
  const { connections, log, tracing } = parts
  const framing = stages.checkFraming(arrival.request)
  arrival.request.framed?.(isRefusal(framing) ? undefined : framing)
  const exchange = accept(parts, arrival, framing, stages)
  if (tracing.isOn) {
    const fields = isRefusal(framing) ? undefined : arrival.request.rawHeaders
    exchange.trace = tracing.begin(fields, exchange.peerTrusted)
  }
  // RFC 6797 7.2: never over plain HTTP, where anybody could have answered.
  if (arrival.connection.origin.proto === 'https') exchange.hsts = stages.terms.hsts
  const end = (refusal: Refusal | undefined): void => {
    if (refusal === undefined) return
    giveUp(stages, exchange)
    respond(exchange, refusal)
  }
  try {
    const refusal = walk(stages, connections, exchange, framing)
    if (refusal instanceof Promise)
      return refusal.then(end).catch((error: unknown) => failed(log, exchange, error))
    end(refusal)
  } catch (error) {
    failed(log, exchange, error)
  }
  return undefined
}

function failed(log: Log, exchange: Exchange, error: unknown): void {
  log.internalError({ id: exchange.id, error })
  respond(exchange, refuse('service_unavailable', { cause: 'internal error' }))
}

/** The refusal that ended the walk; undefined when the request was forwarded or answered. */
type End = Refusal | undefined

/** Takes a request through the stages. With all answers in memory this is one synchronous call, which makes no promise. */
export function walk(
  stages: Stages,
  connections: Pick<PipelineParts['connections'], 'prove'>,
  exchange: Exchange,
  framing: Framing | Refusal,
): End | Promise<End> {
  const { cors } = stages
  if (cors !== undefined)
    exchange.corsHeaders = cors.answerHeaders(fieldOf(exchange.request.rawHeaders, 'origin'))
  // Framing comes first: nothing can be believed in a request that two parsers could read differently.
  if (isRefusal(framing)) return beforeAuthentication(stages, exchange, framing)
  const target = stages.checkTarget(exchange.request, framing.host, exchange.proto)
  if (isRefusal(target)) return beforeAuthentication(stages, exchange, target)
  if (target.path === '*') {
    return whenKnown(stages.peekAnonymous(exchange.addressKey), (headers) => {
      exchange.quotaHeaders = headers
      answerAsterisk(exchange)
      return undefined
    })
  }

  // The route is matched before the credential, so that its lifecycle headers stand on a 401 too; its refusal is kept for judge().
  const unrouted = stages.matchRoute(exchange, target.path)
  if (unrouted === OUTSIDE) return beforeAuthentication(stages, exchange, unrouted)
  const preflight = stages.answerPreflight?.(exchange, target.path)
  if (preflight !== undefined) return isRefusal(preflight) ? preflight : undefined
  return unlessRefused(stages.authenticate(exchange, framing), (caller) => {
    connections.prove(exchange.connection)
    return unlessRefused(judge(stages, exchange, caller, unrouted), () =>
      unlessRefused(stages.takeTurn(exchange, caller), () =>
        unlessRefused(stages.receiveBody(exchange), () => {
          stages.forward({ exchange, framing, target: target.raw, caller })
          return undefined
        }),
      ),
    )
  })
}

/** Goes on with what a stage has let pass, in the same call where it is known at once. */
function unlessRefused<Passed>(
  answer: Passed | Refusal | Promise<Passed | Refusal>,
  goOn: (passed: Passed) => End | Promise<End>,
): End | Promise<End> {
  if (answer instanceof Promise)
    return answer.then((known) => (isRefusal(known) ? known : goOn(known)))
  return isRefusal(answer) ? answer : goOn(answer)
}

/** Decides whether a caller is let through, and charges it then. routeRefusal: the result of match-route. */
export function judge(
  stages: Pick<Stages, 'checkBan' | 'shedLoad' | 'checkDeprecation' | 'takeQuota' | 'lessee'>,
  exchange: Judged,
  caller: Caller,
  routeRefusal: Refusal | undefined,
): Admission | Refusal | Promise<Admission | Refusal> {
  // A ban costs nothing to answer, so it comes before all that costs something.
  const ban = stages.checkBan(exchange, caller)
  if (ban !== undefined) return ban
  // This is as cheap. Requests without a valid credential were refused at half of that lateness.
  const shed = stages.shedLoad(exchange, caller)
  if (shed !== undefined) return shed

  // The refusal of match-route is for callers with a valid credential alone, so that others cannot find out the routes. It charges
  // nothing, so it precedes the quota.
  const refusal = routeRefusal ?? stages.checkDeprecation(exchange, caller)
  if (refusal !== undefined) {
    return whenKnown(stages.lessee.peek(caller.clientId, caller.limits), (view) => {
      setQuota(exchange, caller, view)
      return refusal
    })
  }
  return stages.takeQuota(exchange, caller)
}

function beforeAuthentication(
  { peekAnonymous }: Stages,
  exchange: Exchange,
  refusal: Refusal,
): Refusal | Promise<Refusal> {
  if (exchange.path === undefined) exchange.target = exchange.request.url
  return whenKnown(peekAnonymous(exchange.addressKey), (headers) => {
    exchange.quotaHeaders = headers
    return refusal
  })
}
