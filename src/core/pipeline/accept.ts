/** First stage and last: accept makes the exchange with its id and client address, and ensures that it is recorded whatever happens to it. */
import { fieldOf } from '../rules/field-names.ts'
import type { Framing } from '../rules/framing.ts'
import type { Refusal } from '../rules/refusals.ts'
import { Exchange, type Arrival, type PipelineParts, type Policy } from './exchange.ts'
import { giveUp } from './take-quota.ts'

export function accept(
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
    record(parts, exchange)
  })
  parts.metrics.requestStarted()
  // Else keep-alive clients would delay the end of the process. What a client had already sent is answered all the same.
  const { isOutdated, protocol } = arrival.connection
  if (isOutdated || (parts.isDraining && protocol?.hasMore !== true))
    response.shouldKeepAlive = false
  return exchange
}

/** Runs exactly once for every exchange: one log line and one set of metrics. */
function record(parts: PipelineParts, exchange: Exchange): void {
  exchange.recorded = true
  exchange.goOn()
  const { log, metrics, tally, tracing, recent } = parts
  const endedMs = performance.now()
  const nowMs = Date.now()
  const totalMs = endedMs - exchange.startedMs
  const backendMs =
    exchange.backendStartedMs === undefined
      ? undefined
      : (exchange.backendEndedMs ?? endedMs) - exchange.backendStartedMs
  const gatewayMs = totalMs - (backendMs ?? 0) - exchange.waitedMs
  const { caller, route, trace } = exchange
  const isTunnel = exchange.status === 101
  if (caller !== undefined) {
    tally.done(caller, isTunnel ? undefined : totalMs, exchange.refusal?.code)
    if (route?.deprecated === true) {
      const agent = fieldOf(exchange.request.rawHeaders, 'user-agent')
      tally.deprecated.called(route.name, caller.clientId, agent, nowMs)
    }
  }
  const times = { nowMs, totalMs, gatewayMs, backendMs }
  metrics.requestDone(exchange, times)
  if (trace !== undefined) tracing.ended(exchange, trace, endedMs)
  recent.note(exchange, times)
  log.access(exchange, times)
}
