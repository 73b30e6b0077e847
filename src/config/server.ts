/** The shapes of `server` and `admin`, the two listeners, with the checks between their values. */
import { basePath, host, listenAddress, network, origin, type HostPort } from './addresses.ts'
import { DEFAULT_CONNECTIONS } from './config.ts'
import { asFiles, group, inBytes, inMs, list } from './groups.ts'
import { isEverywhere, isLoopback } from './hosts.ts'
import type { Refuse } from './problems.ts'
import { choice, duration, flag, integer, line, size, tokenDigest, workers } from './scalars.ts'
import { has, isLonger, listAt, readAt, textAt, type Group } from './tree.ts'

const identity = { cert: line, key: line, clientCa: line.optional() }

export const server = group({
  listen: listenAddress.prefault('127.0.0.1:8080'),
  basePath: basePath.prefault('/v1'),
  /** Processes that serve requests; 1: this process itself, without a supervisor. */
  workers: workers.prefault('1'),
  /** Peers whose X-Forwarded-For is believed. */
  trustedProxies: list(network).prefault([]),
  /** HTTPS instead of HTTP. */
  tls: group({
    ...identity,
    minVersion: choice(['1.2', '1.3'])
      .meta({ enum: ['1.2', '1.3', 1.2, 1.3] })
      .prefault('1.2'),
  })
    .transform(asFiles('cert', 'key', 'clientCa'))
    .optional(),
  /** How long a browser uses TLS alone (HSTS). */
  hsts: duration('0ms', '10y').optional(),
  /** Each connection of a trusted proxy begins with a PROXY header; other connections are refused. */
  proxyProtocol: flag.prefault('false'),
  /** true: where TLS is configured; clear: without TLS, for trusted proxies alone. */
  http2: choice(['true', 'false', 'clear'])
    .meta({ enum: [true, false, 'true', 'false', 'clear'] })
    .optional(),
  /** Whether answers carry RateLimit and RateLimit-Policy beside the X-RateLimit fields. */
  structuredQuotaHeaders: flag.prefault('true'),
  limits: group({
    headerBytes: size('1KiB', '1MiB').prefault('16KiB'),
    headerCount: integer({ min: 10, max: 2000 }).prefault('100'),
    bodyBytes: size('1B', '16GiB').prefault('1MiB'),
    urlBytes: size('64B', '64KiB').prefault('8KiB'),
    connections: integer({ min: 10, max: 1_000_000 }).prefault(`${DEFAULT_CONNECTIONS}`),
    connectionsPerAddress: integer({ min: 1, max: 1_000_000 }).prefault('500'),
    bufferedBody: size('0B', '16MiB').prefault('64KiB'),
    minimumRate: size('0B', '1MiB').prefault('512B'),
  })
    .transform(inBytes('bufferedBody', 'minimumRate'))
    .prefault({}),
  timeouts: group({
    headers: duration('10ms', '1h').prefault('10s'),
    request: duration('10ms', '1d').prefault('60s'),
    idle: duration('10ms', '1d').prefault('75s'),
    drain: duration('0ms', '1h').prefault('20s'),
    drainDelay: duration('0ms', '1h').prefault('0s'),
    tunnelIdle: duration('1s', '1d').prefault('5m'),
  })
    .transform(inMs('headers', 'request', 'idle', 'drain', 'drainDelay', 'tunnelIdle'))
    .prefault({}),
  overload: group({ lag: duration('10ms', '1m').prefault('200ms') })
    .transform(inMs('lag'))
    .prefault({}),
})
  .transform(inMs('hsts'))
  .prefault({})

export const admin = group({
  listen: listenAddress.prefault('127.0.0.1:9090'),
  /** Names and addresses, besides its own, that a request may have in Host. */
  hosts: list(host).prefault([]),
  /** Digest of the required token; undefined: none is required. */
  tokenSha256: tokenDigest.optional(),
  /** Origin by which the other gateways of the store reach this listener; undefined: they cannot ask this one. */
  advertise: origin.optional(),
  /** HTTPS. A client certificate from clientCa replaces the token. */
  tls: group(identity)
    .transform(asFiles('cert', 'key', 'clientCa'))
    .optional(),
  /** Whether /metrics is open to everybody. */
  openMetrics: flag.prefault('false'),
  /** Clients that /metrics names; 0: none. */
  topClients: integer({ min: 0, max: 50 }).prefault('0'),
}).prefault({})

const sameHost = (a: HostPort, b: HostPort): boolean => {
  const local = (host: string) => (host === 'localhost' ? '127.0.0.1' : host)
  return isEverywhere(a.host) || isEverywhere(b.host) || local(a.host) === local(b.host)
}

export const checkServer = (tree: Group, refuse: Refuse): void => {
  const at = (...path: string[]) => ['server', ...path]
  const hasTls = has(tree, ...at('tls'))
  const trustsNobody = listAt(tree, ...at('trustedProxies')).length === 0
  const http2 = textAt(tree, ...at('http2'))
  if (http2 === 'true' && !hasTls)
    refuse(at('http2'), 'needs server.tls; add it, or write clear behind a trusted proxy')
  if (http2 === 'clear' && hasTls)
    refuse(at('http2'), 'does not go with server.tls; write true, or remove one')
  else if (http2 === 'clear' && trustsNobody)
    refuse(at('http2'), 'needs server.trustedProxies: it is spoken with them alone; name the proxy')
  if (isLonger(tree, at('timeouts', 'headers'), at('timeouts', 'request')))
    refuse(
      at('timeouts', 'headers'),
      'is longer than server.timeouts.request; the headers are part of the request',
    )
  if (!hasTls && has(tree, ...at('hsts')))
    refuse(at('hsts'), 'is for TLS alone (RFC 6797 7.2); add server.tls, or remove it', 'key')
  if (textAt(tree, ...at('proxyProtocol')) === 'true' && trustsNobody)
    refuse(
      at('proxyProtocol'),
      'needs server.trustedProxies: connections of all others are reset; name the balancer',
    )
}

/** The operations that change quotas and bans must not be open to everybody. */
export const checkAdmin = (tree: Group, refuse: Refuse): void => {
  const path = ['admin', 'listen']
  const open = readAt(tree, ['server', 'listen'], listenAddress)
  const own = readAt(tree, path, listenAddress)
  if (own === undefined) return
  if (own.port !== 0 && own.port === open?.port && sameHost(open, own))
    refuse(path, 'is taken by server.listen; give it an address of its own')
  const isGuarded = has(tree, 'admin', 'tokenSha256') || has(tree, 'admin', 'tls', 'clientCa')
  if (!isGuarded && !isLoopback(own.host))
    refuse(
      path,
      'can be reached by others than this machine; set admin.tokenSha256 or admin.tls.clientCa, or listen on 127.0.0.1',
    )
}
