/** Last stage, run exactly once for every exchange: one log line and one set of metrics. */
import { fieldOf } from '../rules/field-names.ts'
import type { Exchange, PipelineParts } from './exchange.ts'

export function record(parts: PipelineParts, exchange: Exchange): void {
  if (exchange.recorded) return
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
    tally.done(caller, isTunnel ? undefined : totalMs, exchange.refusal)
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
