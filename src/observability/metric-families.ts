/** Every metric of the gateway by name, with its labels, read from plain numbers when a scrape asks. */
import type { UnavailableReason } from '../credentials/verdicts.ts'
import type { OutageMode } from '../config/config.ts'
import type { RefusalCode } from '../rules/refusals.ts'
import type { BackendFailureKind } from '../rules/backend-failure.ts'
import type { HistogramSeries } from './histogram-series.ts'
import { readRequests, type RequestSeries } from './request-series.ts'

export type Labels = Readonly<Record<string, string | number>>
export interface Sample {
  readonly labels: Labels
  readonly value: number
  /** Where it differs from the family's name: _bucket, _sum and _count of a histogram. */
  readonly metricName?: string
}
export interface Family {
  readonly name: string
  readonly help: string
  readonly type: 'counter' | 'gauge' | 'histogram'
  /** How the values of several workers become one. */
  readonly aggregator: 'sum' | 'min' | 'max' | 'first'
  readonly read: () => Sample[]
}

export type DecisionWindow = 'minute' | 'day' | 'none'
export type DecisionOutcome = 'admitted' | 'refused' | 'unavailable'
export type StoreOutcome = 'ok' | 'timeout' | 'error'

/** What the hot path writes and a scrape reads. */
export interface MetricsState {
  readonly requests: RequestSeries
  inFlight: number
  readonly refusals: Record<RefusalCode, number>
  readonly backendFailures: Record<BackendFailureKind, number>
  readonly decisions: Record<DecisionWindow, Record<DecisionOutcome, number>>
  readonly storeCalls: Record<StoreOutcome, number>
  readonly storeSeconds: HistogramSeries
  storeUp: 0 | 1
  storeOutages: number
  readonly degraded: Record<OutageMode, number>
  readonly keySet: { failures: number; fetchedAtMs: number | undefined }
  readonly unavailable: Record<UnavailableReason, number>
  strikes: number
  bans: number
  bannedKeys: number
  readonly config: {
    revision: string
    takenAtMs: number
  }
  readonly build: { readonly version: string; readonly node: string }
}

export function metricFamilies(state: MetricsState): Family[] {
  return [
    ...requestFamilies(state),
    ...quotaFamilies(state),
    ...credentialFamilies(state),
    ...banFamilies(state),
    ...configFamilies(state),
  ]
}

function requestFamilies(state: MetricsState): Family[] {
  const { routes } = state.requests
  return [
    counter('tollgate_requests_total', 'Requests, by the answer they got.', () =>
      [...routes].flatMap(([route, { plans }]) =>
        [...plans].flatMap(([plan, series]) =>
          Array.from(readRequests(series), ({ method, status, count }) =>
            sample(count, { route, plan, method, status }),
          ),
        ),
      ),
    ),
    counter('tollgate_deprecated_requests_total', 'Requests to deprecated routes.', () =>
      [...routes].flatMap(([route, { plans }]) =>
        [...plans].flatMap(([plan, { deprecated }]) =>
          deprecated > 0 ? [sample(deprecated, { route, plan })] : [],
        ),
      ),
    ),
    histogram('tollgate_request_duration_seconds', "The gateway's own time per request.", () =>
      Array.from(routes, ([route, { gateway }]) => [{ route }, gateway]),
    ),
    histogram('tollgate_backend_duration_seconds', "The backend's time per request.", () =>
      Array.from(routes, ([route, { backend }]) => [{ route }, backend]),
    ),
    gauge('tollgate_requests_in_flight', 'Requests begun and not yet over.', 'sum', () => [
      sample(state.inFlight),
    ]),
    counter('tollgate_refusals_total', 'Requests the gateway answered itself, by code.', () =>
      by('code', state.refusals),
    ),
    counter('tollgate_backend_failures_total', 'Requests that failed at the backend.', () =>
      by('kind', state.backendFailures),
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
    gauge('tollgate_store_up', '1 while the quota store answers, else 0.', 'min', () => [
      sample(state.storeUp),
    ]),
    counter('tollgate_store_outages_total', 'Times the quota store was lost.', () => [
      sample(state.storeOutages),
    ]),
    counter('tollgate_degraded_decisions_total', 'Decisions made without the store.', () =>
      by('mode', state.degraded),
    ),
  ]
}

function credentialFamilies({ keySet, unavailable }: MetricsState): Family[] {
  return [
    gauge('tollgate_jwks_age_seconds', 'Since the key set was last fetched.', 'max', () =>
      keySet.fetchedAtMs === undefined ? [] : [sample((Date.now() - keySet.fetchedAtMs) / 1000)],
    ),
    counter('tollgate_jwks_failures_total', 'Fetches of the key set that failed.', () => [
      sample(keySet.failures),
    ]),
    counter(
      'tollgate_credential_unavailable_total',
      'Requests whose credential nobody could judge, by reason.',
      () => by('reason', unavailable),
    ),
  ]
}

function banFamilies(state: MetricsState): Family[] {
  return [
    counter('tollgate_strikes_total', 'Requests by keys that went on after a 429.', () => [
      sample(state.strikes),
    ]),
    counter('tollgate_bans_total', 'Bans pronounced.', () => [sample(state.bans)]),
    gauge('tollgate_banned_keys', 'Keys banned at present.', 'max', () => [
      sample(state.bannedKeys),
    ]),
  ]
}

function configFamilies({ config, build }: MetricsState): Family[] {
  return [
    gauge('tollgate_config_info', 'The running configuration.', 'first', () => [
      sample(1, { revision: config.revision }),
    ]),
    gauge(
      'tollgate_config_last_load_timestamp_seconds',
      'When it was taken, Unix time.',
      'max',
      () => [sample(config.takenAtMs / 1000)],
    ),
    gauge('tollgate_build_info', 'Versions of the gateway and of Node.js.', 'first', () => [
      sample(1, { ...build }),
    ]),
  ]
}

/** Of the whole gateway, whichever number of processes it has. */
export function workerFamilies(workers: { listening(): number; restarts(): number }): Family[] {
  return [
    gauge('tollgate_workers', 'Processes that take requests.', 'sum', () => [
      sample(workers.listening()),
    ]),
    counter(
      'tollgate_worker_restarts_total',
      'Workers started in place of one that crashed.',
      () => [sample(workers.restarts())],
    ),
  ]
}

const sample = (value: number, labels: Labels = {}): Sample => ({ labels, value })

const by = (label: string, counts: Readonly<Record<string, number>>, more: Labels = {}): Sample[] =>
  Object.entries(counts).map(([name, count]) => sample(count, { ...more, [label]: name }))

const counter = (name: string, help: string, read: () => Sample[]): Family => ({
  name,
  help,
  type: 'counter',
  aggregator: 'sum',
  read,
})

const gauge = (
  name: string,
  help: string,
  aggregator: Family['aggregator'],
  read: () => Sample[],
): Family => ({ name, help, type: 'gauge', aggregator, read })

const histogram = (
  name: string,
  help: string,
  read: () => (readonly [Labels, HistogramSeries])[],
): Family => ({
  name,
  help,
  type: 'histogram',
  aggregator: 'sum',
  read: () => read().flatMap(([labels, series]) => histogramSamples(name, labels, series)),
})

function histogramSamples(name: string, labels: Labels, series: HistogramSeries): Sample[] {
  const { cumulative, sumSeconds } = series.read()
  const count = cumulative.at(-1) ?? 0
  const buckets = cumulative.map((value, slot) => ({
    metricName: `${name}_bucket`,
    labels: { ...labels, le: series.bounds[slot] ?? '+Inf' },
    value,
  }))
  return [
    ...buckets,
    { metricName: `${name}_sum`, labels, value: sumSeconds },
    { metricName: `${name}_count`, labels, value: count },
  ]
}
