/** Describes the servers of a store, without secrets. */
import type { RedisOptions } from 'ioredis'
import type { HostPort, RedisConfig } from '../../config/config.ts'

/** Returns HOST:PORT, with an IPv6 address in brackets; also takes the options of a connection. */
export function nameOf({ host = '', port }: RedisOptions | HostPort): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`
}

/** Returns the name of the store in logs and readiness. */
export function nameServers(servers: RedisConfig): string {
  if (servers.kind === 'server') return nameOf(servers.address)
  if (servers.kind === 'cluster') return `cluster ${servers.nodes.map(nameOf).join(', ')}`
  return `master ${servers.name} of the sentinels ${servers.sentinels.map(nameOf).join(', ')}`
}

/** Returns the configured addresses, each to be reached by itself. */
export function addressesOf(servers: RedisConfig): readonly HostPort[] {
  if (servers.kind === 'server') return [servers.address]
  return servers.kind === 'cluster' ? servers.nodes : servers.sentinels
}
