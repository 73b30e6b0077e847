/** Carries an admitted WebSocket handshake (RFC 6455) to a backend, after whose 101 both sides are one tunnel; forward.ts shares its helpers. */
import type { Forwarder } from '../forwarding/attempts.ts'
import type { Upgrader } from '../forwarding/upgrades.ts'
import type { Log } from '../record/log.ts'
import type { Metrics } from '../record/metrics.ts'
import type { Tunnel } from '../http/messages.ts'
import type { Exchange } from './exchange.ts'
import { backendFailureCode, neverReached, type BackendFailure } from '../rules/backend-failure.ts'
import { upgradeHeaders, type BackendHeadersInput } from '../rules/backend-headers.ts'
import { switchingHeaders } from '../rules/client-headers.ts'
import type { Caller } from '../rules/credentials.ts'
import type { Framing } from '../rules/framing.ts'
import { isRefusal, refuse } from '../rules/refusals.ts'
import { readOffer } from '../rules/websocket.ts'
import { gatewayHeaders, respond } from './respond.ts'
import { giveUp, type Charges } from './take-quota.ts'

export interface ForwardDeps extends Charges {
  readonly forwarder: Forwarder
  readonly upgrader: Upgrader
  readonly log: Log
  readonly metrics: Metrics
  readonly bodyLimitBytes: number
  readonly responseTimeoutMs: number
  readonly host: BackendHeadersInput['host']
}

/** Results of the earlier stages that forwarding needs. */
export interface Admitted {
  readonly exchange: Exchange
  readonly framing: Framing
  /** Origin form, as routed. */
  readonly target: string
  readonly caller: Caller
}

export async function upgrade(
  deps: ForwardDeps,
  admitted: Admitted,
  { socket, head }: Tunnel,
): Promise<void> {
  const { exchange, target } = admitted
  const offer = readOffer(exchange.request.rawHeaders)
  if (isRefusal(offer)) {
    giveUp(deps, exchange)
    return respond(exchange, offer)
  }
  // The client left during the decision; the end of its stream is not signalled again.
  if (socket.destroyed || socket.readableEnded) return void socket.destroy()
  exchange.backendStartedMs = performance.now()
  const headers = upgradeHeaders(backendIdentity(admitted, deps.host))
  let isSeen = false
  exchange.forwarding = { abort: () => isSeen, resume: () => {} }
  // Nothing is written through the response once the backend has agreed: the tunnel has the socket.
  const failure = await deps.upgrader.upgrade({
    request: exchange.request,
    socket,
    head,
    target,
    caller: admitted.caller,
    offer,
    headers: exchange.trace?.along(headers) ?? headers,
    responseHeaders: (backend) =>
      switchingHeaders(backend, gatewayHeaders(exchange), exchange.corsHeaders.length > 0),
    sentTo: (backend, after) => {
      exchange.sentTo(backend, after)
      isSeen = true
    },
    established: () => {
      exchange.status = 101
      deps.metrics.tunnelOpened()
    },
    ended: (end) => {
      exchange.tunnelEnd = end
      deps.metrics.tunnelEnded(end)
    },
  })
  exchange.backendEndedMs = performance.now()
  if (exchange.tunnelEnd !== undefined) deps.metrics.tunnelClosed()
  if (failure === undefined) return void socket.destroy()
  isSeen &&= !neverReached(failure.kind)
  noteFailure(deps, exchange, failure)
  if (exchange.status === 101 || failure.kind === 'client_gone') return void socket.destroy()
  refuseFailed(deps, exchange, failure)
}

/** The input of the header fields that name the caller to the backend; only the gateway sets them. */
export function backendIdentity(
  { exchange, framing, caller }: Admitted,
  host: BackendHeadersInput['host'],
): BackendHeadersInput {
  return {
    host,
    rawHeaders: exchange.request.rawHeaders,
    framing,
    clientId: caller.clientId,
    plan: caller.plan,
    requestId: exchange.id,
    clientAddress: exchange.clientAddress,
    proxies: exchange.proxies,
    proto: exchange.proto,
    httpVersion: exchange.request.httpVersion,
  }
}

export function noteFailure(
  { log, metrics }: ForwardDeps,
  { id, backend, trace }: Exchange,
  failure: BackendFailure,
): void {
  const { kind, cause } = failure
  trace?.failed(failure)
  metrics.backendFailed(kind)
  // A client refused for a full line may come again at once, and the access line says it all.
  if (kind !== 'saturated') log.backendFailed({ id, backend, kind, cause })
}

/** Answers in place of a backend that failed. */
export function refuseFailed(
  charges: Charges,
  exchange: Exchange,
  { kind, cause }: BackendFailure,
): void {
  giveUp(charges, exchange)
  const retryAfterSeconds = kind === 'saturated' ? 1 : undefined
  respond(exchange, refuse(backendFailureCode(kind) ?? 'bad_gateway', { cause, retryAfterSeconds }))
}
