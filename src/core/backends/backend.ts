/** One machine that requests are forwarded to: its URL, parsed once, and how it fares. */
import { isIP } from 'node:net'
import { createSecureContext, type ConnectionOptions } from 'node:tls'
import type { Config } from '../../config/config.ts'
import { noOutcomes, type Outcomes } from './outcomes.ts'
import { attemptBounds, HistogramSeries } from './histogram-series.ts'
import { Standing } from './standing.ts'

export type BackendTls = Required<
  Pick<ConnectionOptions, 'servername' | 'rejectUnauthorized' | 'secureContext'>
>

export interface Backend {
  /** The origin, as in log, metrics and readiness. */
  readonly name: string
  readonly isTls: boolean
  /** To connect to: without the brackets of an IPv6 address. */
  readonly host: string
  readonly port: number
  /** Host and, unless it is the scheme's own, port, as in a Host field. */
  readonly hostHeader: string
  /** What connections to it are made with; undefined without TLS. */
  readonly tls: BackendTls | undefined
  /** Permits given out: requests and tunnels under way. Written by the balancer. */
  inUse: number
  /** With `outcomes` that of the machine: the same under each configuration that names it. */
  readonly standing: Standing
  /** What became of its requests, for metrics. Written by the balancer. */
  readonly outcomes: Outcomes
  /** The time of each attempt that it answered or failed. Written by the balancer. */
  readonly attemptSeconds: HistogramSeries
  /** Connections that were closed since it sent what nobody had asked for. Written by the balancer. */
  readonly surplus: { connections: number; lastMs: number }
}

export type BackendOptions = Pick<Config['upstream'], 'eject' | 'health'>

/** url: of a scheme, host and port alone. tls: as configured for all of them. earlier: the same machine under another configuration. */
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
    isTls,
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
    // Said outright, so that no environment variable can switch it off.
    rejectUnauthorized: true,
    // Made once, not for each connection.
    secureContext: createSecureContext(tls),
  }
}
