/** A backend is one machine that requests are forwarded to: its URL, parsed once, its health and what became of its requests. */
import { isIP } from 'node:net'
import { createSecureContext, type ConnectionOptions } from 'node:tls'
import type { Config } from '../../config/config.ts'
import { backendFailureKinds, type FailedAttempt } from '../rules/backend-failure.ts'
import { attemptBounds, HistogramSeries } from './histogram-series.ts'
import { Standing } from './standing.ts'

/** The status of a complete answer, the failure, or `abandoned` when nobody waits for the answer any more. */
export type Outcome = number | FailedAttempt | 'abandoned'

/** The sender of a request. startedMs: performance.now() when the backend was sent the request. */
export interface Sender {
  readonly job: { readonly clientId: string }
  readonly startedMs: number
}

const classes = ['1xx', '2xx', '3xx', '4xx', '5xx'] as const
const outcomeNames = [...classes, ...backendFailureKinds, 'abandoned'] as const
type Outcomes = Record<(typeof outcomeNames)[number], number>

export function countOutcome(outcomes: Outcomes, outcome: Outcome): void {
  if (typeof outcome === 'number') outcomes[classes[Math.trunc(outcome / 100) - 1] ?? '5xx']++
  else outcomes[outcome === 'abandoned' ? outcome : outcome.kind]++
}

export interface Backend {
  /** The origin names the backend in log, metrics and readiness. */
  readonly name: string
  /** The host to connect to; an IPv6 address has no brackets. */
  readonly host: string
  readonly port: number
  /** Value of the Host field: the host, and the port unless it is the scheme's default. */
  readonly hostHeader: string
  /** TLS options of each connection; undefined: connections use no TLS. */
  readonly tls: ReturnType<typeof backendTls> | undefined
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

export type BackendOptions = Pick<Config['upstream'], 'urls' | 'eject' | 'health'>

/**
 * All backends of a configuration. urls: scheme, host and port only. tls: the options of all backends. earlier: those of the
 * configuration before; one of the same origin passes on its state, and its outcomes are counted on.
 */
export function createBackends(
  { urls, eject, health }: BackendOptions,
  tls: ConnectionOptions = {},
  earlier: readonly Backend[] = [],
): Backend[] {
  return urls.map((url) => {
    const { origin, protocol, hostname, port, host: hostHeader } = new URL(url)
    const before = earlier.find(({ name }) => name === origin)
    const isTls = protocol === 'https:'
    const host = hostname.replace(/^\[|\]$/g, '')
    return {
      name: origin,
      host,
      port: port === '' ? (isTls ? 443 : 80) : Number(port),
      hostHeader,
      tls: isTls ? backendTls(host, tls) : undefined,
      inUse: 0,
      standing: before?.standing ?? new Standing(eject, health),
      outcomes:
        before?.outcomes ?? (Object.fromEntries(outcomeNames.map((name) => [name, 0])) as Outcomes),
      attemptSeconds: before?.attemptSeconds ?? new HistogramSeries(attemptBounds),
      surplus: before?.surplus ?? { connections: 0, lastMs: -Infinity },
    }
  })
}

function backendTls(host: string, tls: ConnectionOptions) {
  return {
    // An address is no server name (RFC 6066 section 3): none is sent.
    servername: tls.servername ?? (isIP(host) === 0 ? host : ''),
    // An explicit value, so that no environment variable can switch verification off.
    rejectUnauthorized: true,
    // All connections share one context: creating it is expensive.
    secureContext: createSecureContext(tls),
  }
}

/** Backend health as plain data: for readiness, and from a worker to its supervisor. */
export interface BackendHealth {
  readonly name: string
  /** ejected: the backend gets no requests while others do. */
  readonly state: 'up' | 'down' | 'ejected'
  /** Cause of the last failure; undefined when up. */
  readonly fault: string | undefined
  /** Time of the first failure since it last answered, in ISO 8601. */
  readonly since: string | undefined
  /** Requests can be served through this backend; readiness needs one such backend. */
  readonly isUsable: boolean
  /** Unix time in ms at which a request tries it again; undefined: it is up, or a check decides. */
  readonly nextTryAtMs?: number | undefined
}

export function healthOf({ name, standing }: Backend): BackendHealth {
  const nowMs = performance.now()
  const { fault, isUsable } = standing
  const usual = standing.isDown || standing.isUnreachable ? 'down' : 'up'
  const state = standing.isOut(nowMs) ? 'ejected' : usual
  if (state === 'up') return { name, state, fault: undefined, since: undefined, isUsable: true }
  const epochMs = Date.now() - nowMs
  const since = new Date(epochMs + standing.faultSinceMs).toISOString()
  const tryMs = standing.ejectedUntilMs ?? standing.restsUntilMs
  const nextTryAtMs =
    tryMs === undefined || standing.failsChecks ? undefined : epochMs + Math.max(tryMs, nowMs)
  return { name, state, fault, since, isUsable, nextTryAtMs }
}

const severity = { up: 0, down: 1, ejected: 2 } as const

export function worstOf(all: readonly (readonly BackendHealth[])[]): BackendHealth[] {
  const worst = new Map<string, BackendHealth>()
  for (const health of all.flat()) {
    const other = worst.get(health.name)
    if (other === undefined || severity[other.state] < severity[health.state])
      worst.set(health.name, health)
  }
  return [...worst.values()]
}
