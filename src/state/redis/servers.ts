/** The servers of a store in words, without what is secret. */
import type { RedisOptions } from 'ioredis'
import type { HostPort, RedisConfig } from '../../config/config.ts'

/** HOST:PORT, an IPv6 address in brackets; also of the options of a connection. */
export function nameOf({ host = '', port }: RedisOptions | HostPort): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`
}

/** As logs and readiness name the store. */
export function nameServers(servers: RedisConfig): string {
  if (servers.kind === 'server') return nameOf(servers.address)
  if (servers.kind === 'cluster') return `cluster ${servers.nodes.map(nameOf).join(', ')}`
  return `master ${servers.name} of the sentinels ${servers.sentinels.map(nameOf).join(', ')}`
}

/** Those of the configuration, each to be reached by itself. */
export function addressesOf(servers: RedisConfig): readonly HostPort[] {
  if (servers.kind === 'server') return [servers.address]
  return servers.kind === 'cluster' ? servers.nodes : servers.sentinels
}
