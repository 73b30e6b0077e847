/** Every default, in the spelling of the file; config/gateway.yaml shows the same values with their meaning. */
import { emptyGroup, isGroup, isList, valueAt } from './tree.ts'
import type { Group, Tree } from './tree.ts'

/** Keys a file may leave out. Groups are completed key by key; lists and `plans` are taken whole. */
export const defaults = {
  server: {
    listen: '127.0.0.1:8080',
    basePath: '/v1',
    workers: '1',
    trustedProxies: [],
    proxyProtocol: 'false',
    structuredQuotaHeaders: 'true',
    limits: {
      headerBytes: '16KiB',
      headerCount: '100',
      bodyBytes: '1MiB',
      urlBytes: '8KiB',
      connections: '20000',
      connectionsPerAddress: '500',
      bufferedBody: '64KiB',
      minimumRate: '512B',
    },
    timeouts: {
      headers: '10s',
      request: '60s',
      idle: '75s',
      drain: '20s',
      drainDelay: '0s',
      tunnelIdle: '5m',
    },
    overload: { lag: '200ms' },
  },
  admin: { listen: '127.0.0.1:9090', hosts: [], openMetrics: 'false', topClients: '0' },
  upstream: {
    urls: ['http://127.0.0.1:3000'],
    host: 'preserve',
    timeouts: { connect: '1s', response: '30s', idle: '30s' },
    connections: '128',
    connectionUses: '10000',
    connectionAge: '10m',
    engine: 'direct',
    balance: 'least-requests',
    eject: {
      failures: '5',
      within: '10s',
      for: '10s',
      growth: '2',
      maxFor: '5m',
      atMost: '50%',
    },
    retry: { attempts: '1', budget: '10%' },
    breaker: { waiting: '1000' },
  },
  store: {
    redis: '',
    prefix: 'tollgate',
    timeout: '100ms',
    onOutage: 'local',
    lease: 'auto',
    file: 'data/tollgate.db',
  },
  plans: {
    free: { perMinute: '60', perDay: '1000' },
    pro: { perMinute: '300', perDay: '10000' },
    business: { perMinute: '1000', perDay: '100000' },
    enterprise: { custom: 'true' },
  },
  clients: [],
  clientFiles: [],
  anonymous: { perMinute: '60' },
  bans: {
    strikes: '90',
    within: '1m',
    grace: '1s',
    duration: '1m',
    growth: '2',
    maxDuration: '24h',
    forgetAfter: '24h',
  },
  routes: [],
  unmatched: 'forward',
  log: { level: 'info', format: 'auto', access: 'true' },
} as const satisfies Tree

/** Keys that have a default only inside a block that is itself optional. */
export const blockDefaults = {
  cors: { headers: ['authorization', 'content-type'], maxAge: '2h', credentials: 'false' },
  tls: { minVersion: '1.2' },
  jwt: { clientClaim: 'sub', planClaim: 'plan' },
  health: { every: '5s', timeout: '1s', down: '2', up: '2' },
  route: { websocket: 'false' },
  deprecated: { afterSunset: 'announce', brownouts: [] },
  telemetry: { sample: '1%' },
  notify: { at: ['80%', '100%'], events: ['quota', 'ban', 'backend', 'store', 'reload'] },
  client: { keys: [] },
} as const satisfies Tree

const complete = (given: Tree | undefined, standard: Tree): Tree => {
  if (given === undefined) return standard
  if (!isGroup(given) || !isGroup(standard)) return given
  const completed = Object.assign(emptyGroup(), given)
  for (const [key, value] of Object.entries(standard)) {
    completed[key] = key === 'plans' ? (given[key] ?? value) : complete(given[key], value)
  }
  return completed
}

/** A client with every absent key that has a default filled in. */
export const withClientDefaults = (client: Tree): Tree =>
  isGroup(client) ? complete(client, blockDefaults.client) : client

const withRouteDefaults = (route: Tree): Tree => {
  if (!isGroup(route)) return route
  const { deprecated } = route
  return complete(
    deprecated === undefined
      ? route
      : { ...route, deprecated: complete(deprecated, blockDefaults.deprecated) },
    blockDefaults.route,
  )
}

/** The tree with every absent key that has a default filled in. */
export const withDefaults = (tree: Group): Group => {
  const completed = Object.assign(emptyGroup(), complete(tree, defaults))
  for (const name of ['cors', 'jwt', 'telemetry', 'notify'] as const) {
    const block = valueAt(tree, name)
    if (block !== undefined) completed[name] = complete(block, blockDefaults[name])
  }
  const { server, upstream, routes, clients } = completed
  if (isGroup(server) && server.tls !== undefined)
    completed.server = { ...server, tls: complete(server.tls, blockDefaults.tls) }
  if (isGroup(upstream) && upstream.health !== undefined)
    completed.upstream = { ...upstream, health: complete(upstream.health, blockDefaults.health) }
  if (routes !== undefined)
    completed.routes = isList(routes) ? routes.map(withRouteDefaults) : routes
  if (clients !== undefined)
    completed.clients = isList(clients) ? clients.map(withClientDefaults) : clients
  return completed
}
