/** Last stage, run exactly once for every exchange: one log line and one set of metrics. */
import type { Exchange, PipelineParts } from './exchange.ts'

export function record({ log, metrics }: PipelineParts, exchange: Exchange): void {
  if (exchange.recorded) return
  exchange.recorded = true
  exchange.goOn()
  const endedMs = performance.now()
  const totalMs = endedMs - exchange.startedMs
  const backendMs =
    exchange.backendStartedMs === undefined
      ? undefined
      : (exchange.backendEndedMs ?? endedMs) - exchange.backendStartedMs
  const gatewayMs = totalMs - (backendMs ?? 0) - exchange.waitedMs
  const { caller, route } = exchange
  metrics.requestDone({
    route: route?.name,
    plan: caller?.plan,
    method: exchange.request.method ?? '',
    status: exchange.status,
    gatewaySeconds: gatewayMs / 1000,
    backendSeconds: backendMs === undefined ? undefined : backendMs / 1000,
    refusal: exchange.refusal,
    deprecated: route?.deprecated ?? false,
  })
  log.access(exchange, { totalMs, backendMs })
}
