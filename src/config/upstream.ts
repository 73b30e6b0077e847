/** The shape of `upstream`: where the backends are, how they are chosen, and what is asked of them; with the checks between its values. */
import { healthPath, hostField, origin } from './addresses.ts'
import { asFiles, filledList, group, inMs } from './groups.ts'
import type { Path, Refuse } from './problems.ts'
import { choice, decimal, duration, integer, line, share } from './scalars.ts'
import { has, isLonger, itemsAt, readAt, repeated, type Group } from './tree.ts'

/** PEM files for a TLS connection that the gateway opens: the same keys to Redis and to backends. */
export const tlsFiles = group({
  ca: line.optional().describe('PEM file of the authorities to trust, instead of the usual.'),
  cert: line.optional().describe('PEM file of the certificate that the gateway shows.'),
  key: line.optional().describe('PEM file of the private key of that certificate.'),
  serverName: line.optional().describe('Name in the certificates. Left out: the host.'),
}).transform(asFiles('ca', 'cert', 'key'))

export const upstream = group({
  urls: filledList(origin).prefault(['http://127.0.0.1:3000']),
  host: hostField.prefault('preserve'),
  timeouts: group({
    connect: duration('1ms', '1m').prefault('1s'),
    response: duration('1ms', '1d').prefault('30s'),
    idle: duration('1ms', '1d').prefault('30s'),
  })
    .transform(inMs('connect', 'response', 'idle'))
    .prefault({}),
  /** Per worker and URL. */
  connections: integer({ min: 1, max: 65_535 }).prefault('128'),
  connectionUses: integer({ min: 1, max: 1_000_000_000 }).prefault('10000'),
  connectionAge: duration('1s', '30d').prefault('10m'),
  engine: choice(['direct', 'http-proxy-3']).prefault('direct'),
  balance: choice(['least-requests', 'round-robin']).prefault('least-requests'),
  eject: group({
    failures: integer({ min: 1, max: 1_000_000 }).prefault('5'),
    within: duration('1s', '1h').prefault('10s'),
    for: duration('1s', '1d').prefault('10s'),
    growth: decimal({ min: 1, max: 100 }).prefault('2'),
    maxFor: duration('1s', '1d').prefault('5m'),
    atMost: share.prefault('50%'),
  })
    .transform(inMs('within', 'for', 'maxFor'))
    .prefault({}),
  health: group({
    path: healthPath,
    every: duration('100ms', '1h').prefault('5s'),
    timeout: duration('10ms', '1m').prefault('1s'),
    down: integer({ min: 1, max: 100 }).prefault('2'),
    up: integer({ min: 1, max: 100 }).prefault('2'),
  })
    .transform(inMs('every', 'timeout'))
    .optional(),
  retry: group({
    attempts: integer({ min: 0, max: 10 }).prefault('1'),
    budget: share.prefault('10%'),
  }).prefault({}),
  /** Requests that may wait for a connection, per worker. */
  breaker: group({ waiting: integer({ min: 0, max: 1_000_000 }).prefault('1000') }).prefault({}),
  tls: tlsFiles.optional(),
})
  .transform(inMs('connectionAge'))
  .prefault({})

export const checkUpstream = (tree: Group, refuse: Refuse): void => {
  const at = (...path: string[]) => ['upstream', ...path]
  const originAt = (path: Path) => readAt(tree, path, origin)
  for (const [path, earlier] of repeated(itemsAt(tree, ...at('urls')), originAt))
    refuse(path, `is the same backend as ${earlier}; remove one`)
  const longest = at('eject', 'maxFor')
  if (isLonger(tree, at('eject', 'for'), longest))
    refuse(longest, 'is shorter than `for`; raise maxFor, or lower for')
  if (has(tree, ...at('tls', 'cert')) !== has(tree, ...at('tls', 'key')))
    refuse(at('tls'), 'has one of cert and key; write both, or none', 'key')
}
