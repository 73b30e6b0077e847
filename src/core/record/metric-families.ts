/** Every metric of the gateway by name, with its labels, read from plain numbers at each scrape. */
import { version as nodeVersion } from 'node:process'
import { backendFailureKinds } from '../rules/backend-failure.ts'
import { connectionBounds, connectionRefusals } from '../http/connection-limits.ts'
import { http2Abuses } from '../rules/http2-abuse.ts'
import { handshakeFaults } from '../http/tls-server.ts'
import { HistogramSeries, storeBounds } from '../backends/histogram-series.ts'
import { refusalKinds, type RefusalCode } from '../rules/refusals.ts'
import { backendFamilies, type BackendsView } from './backend-families.ts'
import { by, counter, gauge, histogram, sample, type Family } from './family.ts'
import { tunnelEnds } from '../rules/websocket.ts'
import { readRefusals, readRequests, RequestSeries } from './request-series.ts'
import { lossFamilies } from './whole-families.ts'

/** The names allowed as labels; anything else is counted as unmatched or other. */
export interface ConfigNames {
  readonly revision: string
  readonly plans: readonly string[]
  readonly routes: readonly string[]
}

type MetricsState = ReturnType<typeof newState>

/** The numbers that the hot path writes and a scrape reads. */
export function newState(names: ConfigNames, version: string) {
  const outcomes = () => zeros(['admitted', 'refused', 'unavailable'])
  return {
    requests: new RequestSeries(names),
    inFlight: 0,
    refusals: zeros(Object.keys(refusalKinds) as RefusalCode[]),
    backendFailures: zeros(backendFailureKinds),
    backends: undefined as BackendsView | undefined,
    decisions: { minute: outcomes(), day: outcomes(), none: outcomes() },
    storeCalls: zeros(['ok', 'timeout', 'error']),
    storeSeconds: new HistogramSeries(storeBounds),
    storeUp: true,
    storeOutages: 0,
    degraded: zeros(['local', 'open', 'closed']),
    /** Keyed by plan. */
    shadowRefusals: new Map<string, { minute: number; day: number; unjudged: number }>(),
    keySet: { failures: 0, fetchedAtMs: undefined as number | undefined },
    unavailable: zeros(['no_key_set', 'unknown_key', 'busy']),
    spans: zeros(['exported', 'dropped']),
    strikes: 0,
    bans: 0,
    bannedKeys: () => 0,
    eventLoopLagMs: 0,
    usageDropped: [] as (() => number)[],
    logLinesDropped: () => 0,
    connections: () => 0,
    connectionRefusals: zeros(connectionRefusals),
    connectionsDisplaced: zeros(connectionBounds),
    http2Connections: () => 0,
    http2Abuses: zeros(http2Abuses),
    handshakeFaults: zeros(handshakeFaults),
    tunnels: 0,
    tunnelEnds: zeros(tunnelEnds),
    build: { version, node: nodeVersion },
  }
}

const zeros = <const Name extends string>(names: readonly Name[]): Record<Name, number> =>
  Object.fromEntries(names.map((name) => [name, 0])) as Record<Name, number>

export function metricFamilies(state: MetricsState): Family[] {
  return [
    ...requestFamilies(state),
    ...connectionFamilies(state),
    ...backendFamilies(() => state.backends),
    ...quotaFamilies(state),
    ...otherFamilies(state),
  ]
}

function requestFamilies(state: MetricsState): Family[] {
  const { requests } = state
  return [
    counter('tollgate_requests_total', 'Requests, by the answer they got.', () =>
      [...requests.routes].flatMap(([route, { plans }]) =>
        [...plans].flatMap(([plan, series]) =>
          Array.from(readRequests(series), ({ method, status, count }) =>
            sample(count, { route, plan, method, status }),
          ),
        ),
      ),
    ),
    counter('tollgate_deprecated_requests_total', 'Requests to deprecated routes.', () =>
      [...requests.routes].flatMap(([route, { plans }]) =>
        [...plans].flatMap(([plan, { deprecated }]) =>
          deprecated > 0 ? [sample(deprecated, { route, plan })] : [],
        ),
      ),
    ),
    histogram('tollgate_request_duration_seconds', "The gateway's own time per request.", () =>
      Array.from(requests.routes, ([route, { gateway }]) => [{ route }, gateway]),
    ),
    histogram('tollgate_backend_duration_seconds', "The backends' time per request.", () =>
      Array.from(requests.routes, ([route, { backend }]) => [{ route }, backend]),
    ),
    gauge.sum(
      'tollgate_requests_in_flight',
      'Requests begun and not yet over.',
      () => state.inFlight,
    ),
    counter('tollgate_refusals_total', 'Requests the gateway answered itself.', () =>
      readRefusals(requests),
    ),
    counter('tollgate_backend_failures_total', 'Requests that failed at the backend.', () =>
      by('kind', state.backendFailures),
    ),
  ]
}

function connectionFamilies(state: MetricsState): Family[] {
  return [
    gauge.sum('tollgate_connections', 'Connections of clients.', () => state.connections()),
    counter(
      'tollgate_connections_refused_total',
      'Connections of clients closed at once, by the bound that was reached.',
      () => by('reason', state.connectionRefusals),
    ),
    counter(
      'tollgate_connections_displaced_total',
      'Connections of clients closed for new ones, by the bound that was reached.',
      () => by('reason', state.connectionsDisplaced),
    ),
    gauge.sum('tollgate_http2_connections', 'Connections of clients that speak HTTP/2.', () =>
      state.http2Connections(),
    ),
    counter(
      'tollgate_http2_abuse_total',
      'What clients of HTTP/2 may not do, by kind; most of it ends their connection.',
      () => by('kind', state.http2Abuses),
    ),
    counter('tollgate_tls_handshakes_failed_total', 'TLS handshakes of clients, by fault.', () =>
      by('reason', state.handshakeFaults),
    ),
    gauge.sum('tollgate_tunnels', 'WebSockets open.', () => state.tunnels),
    counter('tollgate_tunnels_closed_total', 'WebSockets closed, by who or what ended them.', () =>
      by('reason', state.tunnelEnds),
    ),
  ]
}

function quotaFamilies(state: MetricsState): Family[] {
  return [
    counter('tollgate_quota_decisions_total', 'Decisions, by the window that refused.', () =>
      Object.entries(state.decisions).flatMap(([window, outcomes]) =>
        by('outcome', outcomes, { window }),
      ),
    ),
    counter('tollgate_store_calls_total', 'Calls to the quota store.', () =>
      by('outcome', state.storeCalls),
    ),
    histogram('tollgate_store_call_duration_seconds', 'Time per call to the quota store.', () => [
      [{}, state.storeSeconds],
    ]),
    gauge.min('tollgate_store_up', '1 while the quota store answers, else 0.', () =>
      state.storeUp ? 1 : 0,
    ),
    counter(
      'tollgate_store_outages_total',
      'Times the quota store was lost.',
      () => state.storeOutages,
    ),
    counter('tollgate_degraded_decisions_total', 'Decisions made without the store.', () =>
      by('mode', state.degraded),
    ),
    counter(
      'tollgate_shadow_refusals_total',
      'Requests that limits which are only tried would have refused.',
      () =>
        [...state.shadowRefusals].flatMap(([plan, { minute, day }]) =>
          by('window', { minute, day }, { plan }),
        ),
    ),
    counter(
      'tollgate_shadow_unjudged_total',
      'Requests of which limits that are only tried cannot say whether they would have refused them.',
      () =>
        [...state.shadowRefusals].map(([plan, { unjudged }]) => ({
          labels: { plan },
          value: unjudged,
        })),
    ),
  ]
}

/** The metrics of losses, credentials, bans and the process itself. */
function otherFamilies(state: MetricsState): Family[] {
  const { keySet } = state
  return [
    ...lossFamilies({
      usage: () => state.usageDropped.reduce((sum, dropped) => sum + dropped(), 0),
      logLines: () => state.logLinesDropped(),
    }),
    gauge.max('tollgate_jwks_age_seconds', 'Since the key set was last fetched.', () =>
      keySet.fetchedAtMs === undefined ? [] : (Date.now() - keySet.fetchedAtMs) / 1000,
    ),
    counter(
      'tollgate_jwks_failures_total',
      'Fetches of the key set that failed.',
      () => keySet.failures,
    ),
    counter(
      'tollgate_credential_unavailable_total',
      'Requests whose credential nobody could judge, by reason.',
      () => by('reason', state.unavailable),
    ),
    counter(
      'tollgate_strikes_total',
      'Requests by keys that went on after a 429.',
      () => state.strikes,
    ),
    counter('tollgate_bans_total', 'Bans pronounced.', () => state.bans),
    gauge.max('tollgate_banned_keys', 'Keys banned at present.', () => state.bannedKeys()),
    gauge.max(
      'tollgate_event_loop_lag_seconds',
      'How late the event loop is time and again; beyond server.overload.lag requests are refused.',
      () => state.eventLoopLagMs / 1000,
    ),
    counter('tollgate_trace_spans_total', 'Spans of traces, by what became of them.', () =>
      by('outcome', state.spans),
    ),
    gauge.first('tollgate_build_info', 'Versions of the gateway and of Node.js.', () => [
      sample(1, { ...state.build }),
    ]),
  ]
}
