/** The metrics of the whole gateway, however many processes it has. */
import { EXPIRING_MS } from '../../config/clients/warnings.ts'
import { by, sample, type MetricRegistry } from '../../core/record/metric-registry.ts'
import type { Gateway } from './gateway.ts'

export function addGatewayMetrics(registry: MetricRegistry, gateway: Gateway): void {
  addConfigMetrics(registry, gateway)
  registry.gauge(
    'sum',
    'tollgate_workers',
    'Processes that take requests.',
    () => gateway.listeningWorkers,
  )
  registry.counter(
    'tollgate_worker_restarts_total',
    'Workers started in place of one that crashed.',
    () => gateway.workers.restarts,
  )
  registry.gauge(
    'sum',
    'tollgate_top_client_requests',
    'Requests of the latest minute by the clients that had most, as many as admin.topClients says.',
    () => {
      const { topClients } = gateway.reloads.config.admin
      const busiest = gateway.live.top.busiest(topClients)
      return busiest.map(({ client, requests }) => sample(requests, { client }))
    },
  )
  registry.gauge(
    'sum',
    'tollgate_deprecated_callers',
    'Clients that have called a deprecated route since the gateway started, the busiest.',
    () => {
      const clients = gateway.live.deprecated.clientsByRoute()
      return [...clients].map(([route, count]) => sample(count, { route }))
    },
  )
  registry.gauge(
    'max',
    'tollgate_counters_unsaved_seconds',
    'For how long counters of the embedded store, or totals of days, could not be kept; 0 while they are kept within their second.',
    () => gateway.unsavedSeconds,
  )
}

function addConfigMetrics(registry: MetricRegistry, { reloads }: Gateway): void {
  registry.gauge('first', 'tollgate_config_info', 'The running configuration.', () => [
    sample(1, { revision: reloads.config.revision }),
  ])
  registry.gauge(
    'max',
    'tollgate_config_last_load_timestamp_seconds',
    'When it was taken, Unix time.',
    () => reloads.takenAtMs / 1000,
  )
  registry.gauge(
    'min',
    'tollgate_config_last_reload_successful',
    '0 when the latest reload was refused, else 1.',
    () => (reloads.fault === undefined ? 1 : 0),
  )
  registry.counter(
    'tollgate_config_reloads_total',
    'Wishes for a new configuration, by outcome.',
    () => by('outcome', reloads.counts),
  )
  registry.gauge(
    'min',
    'tollgate_tls_certificate_expiry_seconds',
    'When a certificate ends that this gateway shows to clients, operators, backends or Redis, Unix time; by the setting that names its file.',
    () =>
      reloads.config.certificates.map(({ setting, endsAtMs }) =>
        sample(endsAtMs / 1000, { setting }),
      ),
  )
  registry.gauge('max', 'tollgate_keys_expiring', 'Keys that end within 30 days.', () => {
    const nowMs = Date.now()
    return reloads.config.clients.countEnding(nowMs, nowMs + EXPIRING_MS)
  })
}
