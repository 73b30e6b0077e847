/**
 * The metrics of one process: connections, backends, quota, credentials, the process itself. Those of each request stand in
 * request-series.ts.
 */
import { version as nodeVersion } from 'node:process'
import type { OutageMode } from '../../config/config.ts'
import { perWindow } from '../../config/time.ts'
import type { QuotaObserver } from '../quota/decision.ts'
import type { Balancer } from '../backends/balancer.ts'
import { HistogramSeries, storeBounds } from '../backends/histogram-series.ts'
import type { UnavailableReason } from '../credentials/jwt-verifier.ts'
import { connectionBounds, connectionRefusals } from '../http/connection-room.ts'
import { handshakeFaults } from '../http/tls-server.ts'
import { backendFailureKinds } from '../rules/backend-failure.ts'
import { http2Abuses } from '../rules/http2-abuse.ts'
import { tunnelEnds } from '../rules/websocket.ts'
import { by, MetricRegistry, sample, zeros } from './metric-registry.ts'
import { RequestSeries, type ConfigNames } from './request-series.ts'

export type Metrics = ReturnType<typeof createMetrics>

/** registry: by default one for these metrics alone. */
export function createMetrics(
  options: ConfigNames & { readonly version: string; readonly registry?: MetricRegistry },
) {
  const { version, registry = new MetricRegistry(), ...names } = options
  return {
    requests: new RequestSeries(registry, names),
    ...connectionMetrics(registry),
    ...backendMetrics(registry),
    ...quotaMetrics(registry),
    ...credentialMetrics(registry),
    ...processMetrics(registry, version),
    ...lossMetrics(registry),
    snapshot: () => registry.snapshot(),
  }
}

function connectionMetrics(registry: MetricRegistry) {
  let clients: { size: number; inFlight: readonly unknown[] } = { size: 0, inFlight: [] }
  let tunnels = 0
  const inFlight = (): number => clients.inFlight.length
  registry.gauge('sum', 'tollgate_connections', 'Connections of clients.', () => clients.size)
  const about = 'Requests begun and not yet over.'
  registry.gauge('sum', 'tollgate_requests_in_flight', about, inFlight)
  registry.gauge('sum', 'tollgate_tunnels', 'WebSockets open.', () => tunnels)
  return {
    connections: () => clients.size,
    inFlight,
    /** Sets what each scrape reads, as all watch methods do. */
    watchConnections: (of: typeof clients) => void (clients = of),
    watchHttp2: registry.watched(
      'sum',
      'tollgate_http2_connections',
      'Connections of clients that speak HTTP/2.',
    ),
    connectionRefused: registry.countBy(
      'tollgate_connections_refused_total',
      'Connections of clients closed at once, by the bound that was reached.',
      ['reason', connectionRefusals],
    ),
    connectionDisplaced: registry.countBy(
      'tollgate_connections_displaced_total',
      'Connections of clients closed for new ones, by the bound that was reached.',
      ['reason', connectionBounds],
    ),
    http2Abuse: registry.countBy(
      'tollgate_http2_abuse_total',
      'What clients of HTTP/2 may not do, by kind; most of it ends their connection.',
      ['kind', http2Abuses],
    ),
    handshakeFailed: registry.countBy(
      'tollgate_tls_handshakes_failed_total',
      'TLS handshakes of clients, by fault.',
      ['reason', handshakeFaults],
    ),
    tunnelOpened: () => void tunnels++,
    /** Called once for every tunnelOpened, as is tunnelClosed. */
    tunnelEnded: registry.countBy(
      'tollgate_tunnels_closed_total',
      'WebSockets closed, by who or what ended them.',
      ['reason', tunnelEnds],
    ),
    tunnelClosed: () => void tunnels--,
  }
}

function backendMetrics(registry: MetricRegistry) {
  /** Returns undefined as long as there is no balancer. */
  let view: () => Pick<Balancer, 'backends' | 'waiting'> | undefined = () => undefined
  const backends = () => view()?.backends ?? []
  registry.gauge(
    'min',
    'tollgate_backend_up',
    '0 while a backend fails its requests or its checks, else 1; with workers, what the worst off sees.',
    () =>
      backends().map(({ name, standing }) => sample(standing.isDown ? 0 : 1, { backend: name })),
  )
  registry.counter('tollgate_backend_requests_total', 'Requests, by what became of them.', () =>
    backends().flatMap(({ name, outcomes }) => by('outcome', outcomes, { backend: name })),
  )
  registry.histogram(
    'tollgate_backend_attempt_seconds',
    'The time of each attempt at a backend, until its answer has ended or it has failed.',
    () => backends().map(({ name, attemptSeconds }) => [{ backend: name }, attemptSeconds]),
  )
  registry.counter(
    'tollgate_backend_surplus_total',
    'Connections closed because the backend sent on them what nobody had asked for, such as a second answer.',
    () => backends().map(({ name, surplus }) => sample(surplus.connections, { backend: name })),
  )
  registry.gauge(
    'sum',
    'tollgate_backend_waiting',
    'Requests that wait for a connection to a backend.',
    () => view()?.waiting ?? 0,
  )
  return {
    backends,
    watchBackends: (of: typeof view) => void (view = of),
    backendFailed: registry.countBy(
      'tollgate_backend_failures_total',
      'Requests that failed at the backend.',
      ['kind', backendFailureKinds],
    ),
  }
}

function quotaMetrics(registry: MetricRegistry) {
  const outcomes = () => zeros(['admitted', 'refused', 'unavailable'])
  const decisions = { ...perWindow(outcomes), none: outcomes() }
  const storeSeconds = new HistogramSeries(storeBounds)
  let isUp = true
  let outages = 0
  registry.counter('tollgate_quota_decisions_total', 'Decisions, by the window that refused.', () =>
    Object.entries(decisions).flatMap(([window, counts]) => by('outcome', counts, { window })),
  )
  registry.histogram(
    'tollgate_store_call_duration_seconds',
    'Time per call to the quota store.',
    () => [[{}, storeSeconds]],
  )
  registry.gauge('min', 'tollgate_store_up', '1 while the quota store answers, else 0.', () =>
    Number(isUp),
  )
  registry.counter('tollgate_store_outages_total', 'Times the quota store was lost.', () => outages)
  const countCall = registry.countBy('tollgate_store_calls_total', 'Calls to the quota store.', [
    'outcome',
    ['ok', 'timeout', 'error'],
  ])
  const quota: QuotaObserver & { outage(available: boolean): void } = {
    decision: (window, outcome) => void decisions[window][outcome]++,
    storeCall(outcome, seconds) {
      countCall(outcome)
      storeSeconds.observe(seconds)
    },
    degraded: registry.countBy<OutageMode>(
      'tollgate_degraded_decisions_total',
      'Decisions made without the store.',
      ['mode', ['local', 'open', 'closed']],
    ),
    /** The store was lost (false) or is back (true). Called on changes only. */
    outage(available) {
      isUp = available
      if (!available) outages++
    },
  }
  return { storeSeconds, quota }
}

function credentialMetrics(registry: MetricRegistry) {
  let fetchedAtMs: number | undefined
  registry.gauge('max', 'tollgate_jwks_age_seconds', 'Since the key set was last fetched.', () =>
    fetchedAtMs === undefined ? [] : (Date.now() - fetchedAtMs) / 1000,
  )
  const countFailure = registry.count(
    'tollgate_jwks_failures_total',
    'Fetches of the key set that failed.',
  )
  return {
    keySetFetched(isGood: boolean): void {
      if (isGood) fetchedAtMs = Date.now()
      else countFailure()
    },
    /** The validity of a credential could not be determined. */
    credentialUnavailable: registry.countBy<UnavailableReason>(
      'tollgate_credential_unavailable_total',
      'Requests whose credential nobody could judge, by reason.',
      ['reason', ['no_key_set', 'unknown_key', 'busy']],
    ),
    strike: registry.count('tollgate_strikes_total', 'Requests by keys that went on after a 429.'),
    banned: registry.count('tollgate_bans_total', 'Bans pronounced.'),
    /** keys: returns how many keys are banned now, as far as this process knows. */
    watchBans: registry.watched('max', 'tollgate_banned_keys', 'Keys banned at present.'),
  }
}

function processMetrics(registry: MetricRegistry, version: string) {
  let lagMs = 0
  registry.gauge(
    'max',
    'tollgate_event_loop_lag_seconds',
    'How late the event loop is time and again; beyond server.overload.lag requests are refused.',
    () => lagMs / 1000,
  )
  registry.gauge('first', 'tollgate_build_info', 'Versions of the gateway and of Node.js.', () => [
    sample(1, { version, node: nodeVersion }),
  ])
  return {
    eventLoopLagMs: () => lagMs,
    /** ms: the smallest of the latest measurements. */
    eventLoopLag: (ms: number) => void (lagMs = ms),
    spans: registry.countBy(
      'tollgate_trace_spans_total',
      'Spans of traces, by what became of them.',
      ['outcome', ['exported', 'dropped']],
    ),
  }
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
    watchLogFault: registry.watched(
      'max',
      'tollgate_log_failing',
      '1 while a process can write no line of its log; /readyz says why.',
    ),
  }
}
