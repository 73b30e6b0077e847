/** The shape of `upstream`: where the backends are, how they are chosen, and what is asked of them. */
import { healthPath, hostField, origin } from './addresses.ts'
import { filledList, group, inMs } from './groups.ts'
import { choice, decimal, duration, integer, share } from './scalars.ts'
import { tlsFiles } from './tls-files.ts'

const second = 1000
const minute = 60 * second
const hour = 60 * minute
const day = 24 * hour

export const upstream = group({
  urls: filledList(origin),
  host: hostField,
  timeouts: group({
    connect: duration({ min: 1, max: minute }),
    response: duration({ min: 1, max: day }),
    idle: duration({ min: 1, max: day }),
  }).transform(inMs('connect', 'response', 'idle')),
  /** Per worker and URL. */
  connections: integer({ min: 1, max: 65_535 }),
  connectionUses: integer({ min: 1, max: 1_000_000_000 }),
  connectionAge: duration({ min: second, max: 30 * day }),
  engine: choice(['direct', 'http-proxy-3'], { undici: 'direct' }),
  balance: choice(['least-requests', 'round-robin']),
  eject: group({
    failures: integer({ min: 1, max: 1_000_000 }),
    within: duration({ min: second, max: hour }),
    for: duration({ min: second, max: day }),
    growth: decimal({ min: 1, max: 100 }),
    maxFor: duration({ min: second, max: day }),
    atMost: share,
  }).transform(inMs('within', 'for', 'maxFor')),
  health: group({
    path: healthPath,
    every: duration({ min: 100, max: hour }),
    timeout: duration({ min: 10, max: minute }),
    down: integer({ min: 1, max: 100 }),
    up: integer({ min: 1, max: 100 }),
  })
    .transform(inMs('every', 'timeout'))
    .optional(),
  retry: group({ attempts: integer({ min: 0, max: 10 }), budget: share }),
  /** Requests that may wait for a connection, per worker. */
  breaker: group({ waiting: integer({ min: 0, max: 1_000_000 }) }),
  tls: tlsFiles.optional(),
}).transform(inMs('connectionAge'))
