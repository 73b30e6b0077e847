/** Hosts and stores in words, and rules about them, without the schema: worker processes need them too, and receive a configuration that has been read. */
import { isIPv4 } from 'node:net'
import type { Config, RedisConfig } from './config.ts'

/** RFC 3986 3.2.2: an IPv6 address stands in brackets. */
const hostForUrl = (host: string): string => (host.includes(':') ? `[${host}]` : host)

const bareOf = (host: string): string => host.replace(/^\[(.*)\]$/, '$1').toLowerCase()

/** Whether it stands for every interface, so that nobody can call it by this name. Brackets are allowed. */
export const isEverywhere = (host: string): boolean => ['0.0.0.0', '::'].includes(bareOf(host))

/** Whether only this machine can reach the host: 127.0.0.0/8, ::1 or localhost. Brackets are allowed. */
export const isLoopback = (host: string): boolean => {
  const bare = bareOf(host)
  return bare === 'localhost' || bare === '::1' || (isIPv4(bare) && bare.startsWith('127.'))
}

/** Returns HOST:PORT, with an IPv6 address in brackets. */
export const nameOf = (at: { host?: string | undefined; port?: number | undefined }): string =>
  `${hostForUrl(at.host ?? '')}:${at.port}`

/** Names the servers of a store in logs and readiness. */
export function nameServers(servers: RedisConfig): string {
  const addresses = servers.addresses.map(nameOf).join(', ')
  if (servers.kind === 'sentinels') return `master ${servers.name} of the sentinels ${addresses}`
  return servers.kind === 'cluster' ? `cluster ${addresses}` : addresses
}

/** Names the store of a configuration, in the words of `check` and of the log. It never shows a password. */
export const storeInWords = ({ shared, file }: Config['store']): string =>
  shared ? `${shared.name} at ${shared.servers}` : `embedded (${file ?? 'in memory only'})`
