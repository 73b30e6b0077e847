/** The shape of `server`: the public listener, the proxies that it trusts, and the limits of its clients. */
import { basePath, listenAddress, network } from './addresses.ts'
import { group, inBytes, inMs, list } from './groups.ts'
import { choice, duration, flag, integer, line, size, workers } from './scalars.ts'

const second = 1000
const minute = 60 * second
const hour = 60 * minute
const day = 24 * hour
const year = 365 * day
const KiB = 1024
const MiB = 1024 ** 2
const GiB = 1024 ** 3

export const server = group({
  listen: listenAddress,
  basePath,
  /** Processes that serve requests; 1: this process itself, without a supervisor. */
  workers,
  /** Peers whose X-Forwarded-For is believed. */
  trustedProxies: list(network),
  /** HTTPS instead of HTTP. */
  tls: group({
    cert: line,
    key: line,
    clientCa: line.optional(),
    minVersion: choice(['1.2', '1.3']).meta({ enum: ['1.2', '1.3', 1.2, 1.3] }),
  })
    .transform(({ cert, key, clientCa, minVersion }) => ({
      certFile: cert,
      keyFile: key,
      clientCaFile: clientCa,
      minVersion,
    }))
    .optional(),
  /** How long a browser uses TLS alone (HSTS). */
  hsts: duration({ min: 0, max: 10 * year }).optional(),
  /** Each connection of a trusted proxy begins with a PROXY header; other connections are refused. */
  proxyProtocol: flag,
  /** true: where TLS is configured; clear: without TLS, for trusted proxies alone. */
  http2: choice(['true', 'false', 'clear'])
    .meta({ enum: [true, false, 'true', 'false', 'clear'] })
    .optional(),
  /** Whether answers carry RateLimit and RateLimit-Policy beside the X-RateLimit fields. */
  structuredQuotaHeaders: flag,
  limits: group({
    headerBytes: size({ min: KiB, max: 1024 * KiB }),
    headerCount: integer({ min: 10, max: 2000 }),
    bodyBytes: size({ min: 1, max: 16 * GiB }),
    urlBytes: size({ min: 64, max: 64 * KiB }),
    connections: integer({ min: 10, max: 1_000_000 }),
    connectionsPerAddress: integer({ min: 1, max: 1_000_000 }),
    bufferedBody: size({ min: 0, max: 16 * MiB }),
    minimumRate: size({ min: 0, max: MiB }),
  }).transform(inBytes('bufferedBody', 'minimumRate')),
  timeouts: group({
    headers: duration({ min: 10, max: hour }),
    request: duration({ min: 10, max: day }),
    idle: duration({ min: 10, max: day }),
    drain: duration({ min: 0, max: hour }),
    drainDelay: duration({ min: 0, max: hour }),
    tunnelIdle: duration({ min: second, max: day }),
  }).transform(inMs('headers', 'request', 'idle', 'drain', 'drainDelay', 'tunnelIdle')),
  overload: group({ lag: duration({ min: 10, max: minute }) }).transform(inMs('lag')),
}).transform(inMs('hsts'))
