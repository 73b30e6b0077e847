/** Every metric of the gateway by name, with its labels: the numbers behind it, what writes them, and how a scrape reads them. */
import { version as nodeVersion } from 'node:process'
import type { OutageMode } from '../../config/config.ts'
import { windowNames, type WindowName } from '../../config/time.ts'
import type { QuotaObserver } from '../../state/quota.ts'
import type { Balancer } from '../backends/balancer.ts'
import { HistogramSeries, storeBounds } from '../backends/histogram-series.ts'
import type { UnavailableReason } from '../credentials/verdicts.ts'
import {
  connectionBounds,
  connectionRefusals,
  type ConnectionBound,
  type ConnectionRefusal,
} from '../http/connection-limits.ts'
import { handshakeFaults, type HandshakeFault } from '../http/tls-server.ts'
import { backendFailureKinds, type BackendFailureKind } from '../rules/backend-failure.ts'
import { http2Abuses, type Http2Abuse } from '../rules/http2-abuse.ts'
import { refusalKinds, type RefusalCode } from '../rules/refusals.ts'
import { tunnelEnds, type TunnelEnd } from '../rules/websocket.ts'
import { by, counter, gauge, histogram, sample, type Family } from './family.ts'
import {
  countRefusal,
  countRequest,
  readRefusals,
  readRequests,
  RequestSeries,
  type RefusedWindow,
} from './request-series.ts'

/** The names allowed as labels; anything else is counted as unmatched or other. */
export interface ConfigNames {
  readonly revision: string
  readonly plans: readonly string[]
  readonly routes: readonly string[]
}

export interface RequestRecord {
  /** Name of the configured route; undefined when none matched. */
  readonly route: string | undefined
  /** undefined or empty for a request without a valid credential. */
  readonly plan: string | undefined
  readonly method: string
  /** 0 when the connection ended before a status was sent. */
  readonly status: number
  /** Time spent in the gateway itself, without waiting for the backend. */
  readonly gatewaySeconds: number
  /** undefined when no backend was asked. */
  readonly backendSeconds: number | undefined
  readonly refusal: RefusalCode | undefined
  /** The window whose limit refused the request; undefined: it was refused for another reason, if at all. */
  readonly refusedWindow?: RefusedWindow | undefined
  /** The route is deprecated. */
  readonly deprecated: boolean
}

/** The part of a balancer that metrics read. */
export type BackendsView = Pick<Balancer, 'backends' | 'waiting'>

/** A group of metrics. write: methods of Metrics; live: numbers of which the live view shows the differences. */
interface MetricGroup {
  readonly families: readonly Family[]
  readonly write: object
  readonly live?: () => object
}

const zeros = <const Name extends string>(names: readonly Name[]): Record<Name, number> =>
  Object.fromEntries(names.map((name) => [name, 0])) as Record<Name, number>

export function requestMetrics(names: ConfigNames) {
  const requests = new RequestSeries(names)
  const refusals = zeros(Object.keys(refusalKinds) as RefusalCode[])
  let inFlight = 0
  const series = () => [...requests.routes.values()]
  return {
    families: requestFamilies(requests, () => inFlight),
    write: {
      requestStarted: () => void inFlight++,
      /** Called once for every requestStarted. */
      requestDone(record: RequestRecord): void {
        inFlight--
        const route = requests.route(record.route)
        const plan = requests.plan(route, record.plan)
        countRequest(plan, record.method, record.status)
        route.gateway.observe(record.gatewaySeconds)
        if (record.backendSeconds !== undefined) route.backend.observe(record.backendSeconds)
        if (record.refusal !== undefined)
          countRefusal(refusals, plan, record.refusal, record.refusedWindow)
        if (record.deprecated) plan.deprecated++
      },
      /** Counts the refusal of something that never became a request. */
      refusedUnparsed: (code: RefusalCode) => countRefusal(refusals, requests.unparsed, code),
    },
    live: () => ({
      refusals,
      inFlight,
      gateway: series().map(({ gateway }) => gateway),
      backend: series().map(({ backend }) => backend),
    }),
    use: (next: ConfigNames) => requests.use(next),
  } satisfies MetricGroup & Record<'use', unknown>
}

const requestFamilies = (requests: RequestSeries, inFlight: () => number): Family[] => [
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
  gauge.sum('tollgate_requests_in_flight', 'Requests begun and not yet over.', inFlight),
  counter('tollgate_refusals_total', 'Requests the gateway answered itself.', () =>
    readRefusals(requests),
  ),
]

export function connectionMetrics() {
  let connections = () => 0
  let http2Connections = () => 0
  const refused = zeros(connectionRefusals)
  const displaced = zeros(connectionBounds)
  const abuses = zeros(http2Abuses)
  const faults = zeros(handshakeFaults)
  const ends = zeros(tunnelEnds)
  let tunnels = 0
  return {
    families: [
      gauge.sum('tollgate_connections', 'Connections of clients.', () => connections()),
      counter(
        'tollgate_connections_refused_total',
        'Connections of clients closed at once, by the bound that was reached.',
        () => by('reason', refused),
      ),
      counter(
        'tollgate_connections_displaced_total',
        'Connections of clients closed for new ones, by the bound that was reached.',
        () => by('reason', displaced),
      ),
      gauge.sum('tollgate_http2_connections', 'Connections of clients that speak HTTP/2.', () =>
        http2Connections(),
      ),
      counter(
        'tollgate_http2_abuse_total',
        'What clients of HTTP/2 may not do, by kind; most of it ends their connection.',
        () => by('kind', abuses),
      ),
      counter('tollgate_tls_handshakes_failed_total', 'TLS handshakes of clients, by fault.', () =>
        by('reason', faults),
      ),
      gauge.sum('tollgate_tunnels', 'WebSockets open.', () => tunnels),
      counter(
        'tollgate_tunnels_closed_total',
        'WebSockets closed, by who or what ended them.',
        () => by('reason', ends),
      ),
    ],
    write: {
      /** Sets what each scrape reads, as all watch methods do. */
      watchConnections: (of: () => number) => void (connections = of),
      /** of: returns how many speak HTTP/2. */
      watchHttp2: (of: () => number) => void (http2Connections = of),
      connectionRefused: (reason: ConnectionRefusal) => void refused[reason]++,
      connectionDisplaced: (reason: ConnectionBound) => void displaced[reason]++,
      http2Abuse: (kind: Http2Abuse) => void abuses[kind]++,
      handshakeFailed: (reason: HandshakeFault) => void faults[reason]++,
      tunnelOpened: () => void tunnels++,
      /** Called once for every tunnelOpened, as is tunnelClosed. */
      tunnelEnded: (end: TunnelEnd) => void ends[end]++,
      tunnelClosed: () => void tunnels--,
    },
    live: () => ({ connections: connections() }),
  } satisfies MetricGroup
}

export function backendMetrics() {
  /** undefined: there is no balancer yet. */
  let view: BackendsView | undefined
  const backends = () => view?.backends ?? []
  const failures = zeros(backendFailureKinds)
  return {
    families: [
      counter('tollgate_backend_failures_total', 'Requests that failed at the backend.', () =>
        by('kind', failures),
      ),
      gauge.min(
        'tollgate_backend_up',
        '0 while a backend fails its requests or its checks, else 1; with workers, what the worst off sees.',
        () =>
          backends().map(({ name, standing }) =>
            sample(standing.isDown ? 0 : 1, { backend: name }),
          ),
      ),
      counter('tollgate_backend_requests_total', 'Requests, by what became of them.', () =>
        backends().flatMap(({ name, outcomes }) => by('outcome', outcomes, { backend: name })),
      ),
      histogram(
        'tollgate_backend_attempt_seconds',
        'The time of each attempt at a backend, until its answer has ended or it has failed.',
        () => backends().map(({ name, attemptSeconds }) => [{ backend: name }, attemptSeconds]),
      ),
      counter(
        'tollgate_backend_surplus_total',
        'Connections closed because the backend sent on them what nobody had asked for, such as a second answer.',
        () => backends().map(({ name, surplus }) => sample(surplus.connections, { backend: name })),
      ),
      gauge.sum(
        'tollgate_backend_waiting',
        'Requests that wait for a connection to a backend.',
        () => view?.waiting ?? 0,
      ),
    ],
    write: {
      watchBackends: (of: BackendsView) => void (view = of),
      backendFailed: (kind: BackendFailureKind) => void failures[kind]++,
    },
    live: () => ({ backends: backends() }),
  } satisfies MetricGroup
}

export function quotaMetrics() {
  const outcomes = () => zeros(['admitted', 'refused', 'unavailable'])
  const decisions = { minute: outcomes(), day: outcomes(), none: outcomes() }
  const calls = zeros(['ok', 'timeout', 'error'])
  const storeSeconds = new HistogramSeries(storeBounds)
  const degraded = zeros(['local', 'open', 'closed'])
  /** Keyed by plan. */
  const shadow = new Map<string, Record<WindowName | 'unjudged', number>>()
  let isUp = true
  let outages = 0
  const quota = {
    decision: (window, outcome) => void decisions[window][outcome]++,
    storeCall(outcome, seconds) {
      calls[outcome]++
      storeSeconds.observe(seconds)
    },
    degraded: (mode: OutageMode) => void degraded[mode]++,
    /** The store was lost (false) or is back (true). Called on changes only. */
    outage(available: boolean) {
      isUp = available
      if (!available) outages++
    },
    /** Counts a request that shadow limits would have refused, or could not judge. */
    shadowRefused(plan: string, reason: WindowName | 'unjudged') {
      const counts = shadow.get(plan) ?? zeros([...windowNames, 'unjudged'])
      counts[reason]++
      shadow.set(plan, counts)
    },
  } satisfies QuotaObserver & Record<'outage' | 'shadowRefused', unknown>
  return {
    families: [
      counter('tollgate_quota_decisions_total', 'Decisions, by the window that refused.', () =>
        Object.entries(decisions).flatMap(([window, counts]) => by('outcome', counts, { window })),
      ),
      counter('tollgate_store_calls_total', 'Calls to the quota store.', () =>
        by('outcome', calls),
      ),
      histogram('tollgate_store_call_duration_seconds', 'Time per call to the quota store.', () => [
        [{}, storeSeconds],
      ]),
      gauge.min('tollgate_store_up', '1 while the quota store answers, else 0.', () =>
        Number(isUp),
      ),
      counter('tollgate_store_outages_total', 'Times the quota store was lost.', () => outages),
      counter('tollgate_degraded_decisions_total', 'Decisions made without the store.', () =>
        by('mode', degraded),
      ),
      ...shadowFamilies(shadow),
    ],
    write: { quota },
    live: () => ({ decisions, storeSeconds }),
    use({ plans }: ConfigNames): void {
      for (const plan of shadow.keys()) if (!plans.includes(plan)) shadow.delete(plan)
    },
  } satisfies MetricGroup & Record<'use', unknown>
}

const shadowFamilies = (
  shadow: ReadonlyMap<string, Record<WindowName | 'unjudged', number>>,
): Family[] => [
  counter(
    'tollgate_shadow_refusals_total',
    'Requests that limits which are only tried would have refused.',
    () => [...shadow].flatMap(([plan, { minute, day }]) => by('window', { minute, day }, { plan })),
  ),
  counter(
    'tollgate_shadow_unjudged_total',
    'Requests of which limits that are only tried cannot say whether they would have refused them.',
    () => [...shadow].map(([plan, { unjudged }]) => sample(unjudged, { plan })),
  ),
]

export function credentialMetrics() {
  let fetchFailures = 0
  let fetchedAtMs: number | undefined
  const unavailable = zeros(['no_key_set', 'unknown_key', 'busy'])
  let strikes = 0
  let bans = 0
  let bannedKeys = () => 0
  return {
    families: [
      gauge.max('tollgate_jwks_age_seconds', 'Since the key set was last fetched.', () =>
        fetchedAtMs === undefined ? [] : (Date.now() - fetchedAtMs) / 1000,
      ),
      counter(
        'tollgate_jwks_failures_total',
        'Fetches of the key set that failed.',
        () => fetchFailures,
      ),
      counter(
        'tollgate_credential_unavailable_total',
        'Requests whose credential nobody could judge, by reason.',
        () => by('reason', unavailable),
      ),
      counter(
        'tollgate_strikes_total',
        'Requests by keys that went on after a 429.',
        () => strikes,
      ),
      counter('tollgate_bans_total', 'Bans pronounced.', () => bans),
      gauge.max('tollgate_banned_keys', 'Keys banned at present.', () => bannedKeys()),
    ],
    write: {
      /** The key set of the token issuer was fetched, or could not be. */
      keySetFetched(isGood: boolean): void {
        if (isGood) fetchedAtMs = Date.now()
        else fetchFailures++
      },
      /** The validity of a credential could not be determined. */
      credentialUnavailable: (reason: UnavailableReason) => void unavailable[reason]++,
      strike: () => void strikes++,
      banned: () => void bans++,
      /** keys: returns how many keys are banned now, as far as this process knows. */
      watchBans: (keys: () => number) => void (bannedKeys = keys),
    },
  } satisfies MetricGroup
}

/** version: of the gateway. */
export function processMetrics(version: string) {
  let eventLoopLagMs = 0
  const spans = zeros(['exported', 'dropped'])
  return {
    families: [
      gauge.max(
        'tollgate_event_loop_lag_seconds',
        'How late the event loop is time and again; beyond server.overload.lag requests are refused.',
        () => eventLoopLagMs / 1000,
      ),
      counter('tollgate_trace_spans_total', 'Spans of traces, by what became of them.', () =>
        by('outcome', spans),
      ),
      gauge.first('tollgate_build_info', 'Versions of the gateway and of Node.js.', () => [
        sample(1, { version, node: nodeVersion }),
      ]),
    ],
    write: {
      /** lagMs: the smallest of the latest measurements. */
      eventLoopLag: (lagMs: number) => void (eventLoopLagMs = lagMs),
      spans: (outcome: keyof typeof spans, count: number) => void (spans[outcome] += count),
    },
    live: () => ({ eventLoopLagMs }),
  } satisfies MetricGroup
}
