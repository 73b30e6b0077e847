/** Last stage, run exactly once for every exchange: one log line and one set of metrics. */
import { fieldOf } from '../rules/field-names.ts'
import type { Exchange, PipelineParts } from './exchange.ts'

export function record(parts: PipelineParts, exchange: Exchange): void {
  if (exchange.recorded) return
  exchange.recorded = true
  exchange.goOn()
  const { log, metrics, tally, tracing, recent } = parts
  const endedMs = performance.now()
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
      tally.deprecated.called(route.name, caller.clientId, agent, Date.now())
    }
  }
  metrics.requestDone({
    route: route?.name,
    plan: caller?.plan,
    method: exchange.request.method ?? '',
    status: exchange.status,
    gatewaySeconds: gatewayMs / 1000,
    backendSeconds: backendMs === undefined || isTunnel ? undefined : backendMs / 1000,
    refusal: exchange.refusal,
    refusedWindow: exchange.refusedWindow,
    deprecated: route?.deprecated ?? false,
  })
  if (trace !== undefined) tracing.ended(exchange, trace, endedMs)
  recent.note(exchange, gatewayMs, backendMs)
  log.access(exchange, { totalMs, backendMs })
}
