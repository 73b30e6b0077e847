/** A backend is one machine that requests are forwarded to: its URL, parsed once, its health and what became of its requests. */
import { isIP } from 'node:net'
import { createSecureContext, type ConnectionOptions } from 'node:tls'
import type { Config } from '../../config/config.ts'
import {
  backendFailureKinds,
  type BackendFailureKind,
  type FailedAttempt,
} from '../rules/backend-failure.ts'
import { attemptBounds, HistogramSeries } from './histogram-series.ts'
import { Standing } from './standing.ts'

/** The status of a complete answer, the failure, or `abandoned` when nobody waits for the answer any more. */
export type Outcome = number | FailedAttempt | 'abandoned'

/** The sender of a request. startedMs: performance.now() when the backend was sent the request. */
export interface Sender {
  readonly clientId: string
  readonly startedMs: number
}

const classes = ['1xx', '2xx', '3xx', '4xx', '5xx'] as const
type Outcomes = Record<(typeof classes)[number] | BackendFailureKind | 'abandoned', number>

const noOutcomes = (): Outcomes =>
  Object.fromEntries(
    [...classes, ...backendFailureKinds, 'abandoned'].map((name) => [name, 0]),
  ) as Outcomes

export function countOutcome(outcomes: Outcomes, outcome: Outcome): void {
  if (typeof outcome === 'number') outcomes[classes[Math.trunc(outcome / 100) - 1] ?? '5xx']++
  else outcomes[outcome === 'abandoned' ? outcome : outcome.kind]++
}

export type BackendTls = Required<
  Pick<ConnectionOptions, 'servername' | 'rejectUnauthorized' | 'secureContext'>
>

export interface Backend {
  /** The origin names the backend in log, metrics and readiness. */
  readonly name: string
  /** The host to connect to; an IPv6 address has no brackets. */
  readonly host: string
  readonly port: number
  /** Value of the Host field: the host, and the port unless it is the scheme's default. */
  readonly hostHeader: string
  /** TLS options of each connection; undefined: connections use no TLS. */
  readonly tls: BackendTls | undefined
  /** Permits in use: one for each request and tunnel under way. Written by the balancer. */
  inUse: number
  /** The health of the machine; all configurations that name the machine share it. */
  readonly standing: Standing
  /** Counts of results, for metrics; shared like `standing`. Written by the balancer. */
  readonly outcomes: Outcomes
  /** Duration of each attempt that the backend answered or failed. Written by the balancer. */
  readonly attemptSeconds: HistogramSeries
  /** Connections closed because the backend sent bytes that no request had asked for. Written by the balancer. */
  readonly surplus: { connections: number; lastMs: number }
}

export type BackendOptions = Pick<Config['upstream'], 'eject' | 'health'>

/** All backends of a configuration. earlier: one of the same origin passes on its state, and its outcomes are counted on. */
export function createBackends(
  upstream: Config['upstream'],
  tls: ConnectionOptions | undefined,
  earlier: readonly Backend[] = [],
): Backend[] {
  const known = new Map(earlier.map((backend) => [backend.name, backend]))
  return upstream.urls.map((url) =>
    createBackend(url, upstream, tls, known.get(new URL(url).origin)),
  )
}

/** url: scheme, host and port only. tls: the options of all backends. earlier: the same machine in the previous configuration. */
export function createBackend(
  url: string,
  { eject, health }: BackendOptions,
  tls: ConnectionOptions = {},
  earlier?: Backend,
): Backend {
  const { origin, protocol, hostname, port, host: hostHeader } = new URL(url)
  const isTls = protocol === 'https:'
  const host = hostname.replace(/^\[|\]$/g, '')
  return {
    name: origin,
    host,
    port: port === '' ? (isTls ? 443 : 80) : Number(port),
    hostHeader,
    tls: isTls ? backendTls(host, tls) : undefined,
    inUse: 0,
    standing: earlier?.standing ?? new Standing(eject, health),
    outcomes: earlier?.outcomes ?? noOutcomes(),
    attemptSeconds: earlier?.attemptSeconds ?? new HistogramSeries(attemptBounds),
    surplus: earlier?.surplus ?? { connections: 0, lastMs: -Infinity },
  }
}

function backendTls(host: string, tls: ConnectionOptions): BackendTls {
  return {
    // An address is no server name (RFC 6066 section 3): none is sent.
    servername: tls.servername ?? (isIP(host) === 0 ? host : ''),
    // An explicit value, so that no environment variable can switch verification off.
    rejectUnauthorized: true,
    // All connections share one context: creating it is expensive.
    secureContext: createSecureContext(tls),
  }
}
