/** The metrics of the whole gateway, however many processes it has. */
import type { CertificateEnd } from '../../config/certificates.ts'
import type { Clients } from '../../config/config.ts'
import { EXPIRING_MS } from '../../config/clients/warnings.ts'
import { by, MetricRegistry, sample } from './metric-registry.ts'

/** The configuration in force, and the outcome of attempts to load another. */
export interface ReloadsView {
  readonly config: {
    readonly revision: string
    readonly clients?: Pick<Clients, 'countEnding'>
    readonly certificates?: readonly CertificateEnd[]
  }
  readonly takenAtMs: number
  readonly counts: { readonly taken: number; readonly refused: number }
  /** Why the latest reload was refused; undefined: it was not. */
  readonly fault: string | undefined
}

/** Figures of the whole gateway, however many processes it has. */
export interface WholeGateway {
  listening(): number
  restarts(): number
  unsavedSeconds(): number
  reloads(): ReloadsView
  /** The clients to be named. */
  topClients(): readonly { readonly client: string; readonly requests: number }[]
  /** The number of clients known to have called each deprecated route. */
  deprecatedCallers(): ReadonlyMap<string, number>
}

export function addWholeGateway(registry: MetricRegistry, whole: WholeGateway): void {
  addConfigMetrics(registry, () => whole.reloads())
  registry.gauge('sum', 'tollgate_workers', 'Processes that take requests.', () =>
    whole.listening(),
  )
  registry.counter(
    'tollgate_worker_restarts_total',
    'Workers started in place of one that crashed.',
    () => whole.restarts(),
  )
  registry.gauge(
    'sum',
    'tollgate_top_client_requests',
    'Requests of the latest minute by the clients that had most, as many as admin.topClients says.',
    () => whole.topClients().map(({ client, requests }) => sample(requests, { client })),
  )
  registry.gauge(
    'sum',
    'tollgate_deprecated_callers',
    'Clients that have called a deprecated route since the gateway started, the busiest.',
    () => [...whole.deprecatedCallers()].map(([route, count]) => sample(count, { route })),
  )
  registry.gauge(
    'max',
    'tollgate_counters_unsaved_seconds',
    'For how long counters of the embedded store, or totals of days, could not be kept; 0 while they are kept within their second.',
    () => whole.unsavedSeconds(),
  )
}

function addConfigMetrics(registry: MetricRegistry, reloads: WholeGateway['reloads']): void {
  const config = () => reloads().config
  registry.gauge('first', 'tollgate_config_info', 'The running configuration.', () => [
    sample(1, { revision: config().revision }),
  ])
  registry.gauge(
    'max',
    'tollgate_config_last_load_timestamp_seconds',
    'When it was taken, Unix time.',
    () => reloads().takenAtMs / 1000,
  )
  registry.gauge(
    'min',
    'tollgate_config_last_reload_successful',
    '0 when the latest reload was refused, else 1.',
    () => (reloads().fault === undefined ? 1 : 0),
  )
  registry.counter(
    'tollgate_config_reloads_total',
    'Wishes for a new configuration, by outcome.',
    () => by('outcome', reloads().counts),
  )
  registry.gauge(
    'min',
    'tollgate_tls_certificate_expiry_seconds',
    'When a certificate ends that this gateway shows to clients, operators, backends or Redis, Unix time; by the setting that names its file.',
    () =>
      (config().certificates ?? []).map(({ setting, endsAtMs }) =>
        sample(endsAtMs / 1000, { setting }),
      ),
  )
  registry.gauge('max', 'tollgate_keys_expiring', 'Keys that end within 30 days.', () => {
    const nowMs = Date.now()
    return config().clients?.countEnding(nowMs, nowMs + EXPIRING_MS) ?? 0
  })
}

/** What a process has lost for good since it started, summed over the sources that it watches. */
export function lossMetrics(registry: MetricRegistry) {
  const usage: (() => number)[] = []
  registry.counter(
    'tollgate_usage_dropped_total',
    'Requests that are in no total of a day: memory was full, or the gateway ended while the store was away.',
    () => usage.reduce((sum, dropped) => sum + dropped(), 0),
  )
  return {
    /** Adds a source of requests that are missing from the totals of days. */
    watchUsage: (dropped: () => number) => void usage.push(dropped),
    watchLog: registry.watched(
      'counter',
      'tollgate_log_lines_dropped_total',
      'Lines that are missing from the log: its disk was full or faulty, or nobody read them.',
    ),
  }
}

/** The metrics that a supervisor adds to those of its workers: their number, what it counts for them, and its own Node.js values. */
export function createSupervisorMetrics(whole: WholeGateway) {
  const registry = new MetricRegistry()
  addWholeGateway(registry, whole)
  return { ...lossMetrics(registry), snapshot: () => registry.snapshot() }
}
