/** Hosts and stores in words, and rules about them, without the schema: worker processes need them too, and receive a configuration that has been read. */
import { isIPv4 } from 'node:net'
import type { Config, HostPort } from './config.ts'

/** RFC 3986 3.2.2: an IPv6 address stands in brackets. */
export const hostForUrl = (host: string): string => (host.includes(':') ? `[${host}]` : host)

/** Whether only this machine can reach the host: 127.0.0.0/8, ::1 or localhost. Brackets are allowed. */
export const isLoopback = (host: string): boolean => {
  const bare = host.replace(/^\[(.*)\]$/, '$1').toLowerCase()
  return bare === 'localhost' || bare === '::1' || (isIPv4(bare) && bare.startsWith('127.'))
}

const addresses = (list: readonly HostPort[]): string =>
  list.map(({ host, port }) => `${hostForUrl(host)}:${port}`).join(', ')

/** Names the store of a configuration, in the words of `check` and of the log. It never shows a password. */
export const storeInWords = ({ redis, file }: Config['store']): string => {
  if (redis === undefined) return `embedded (${file ?? 'in memory only'})`
  if (redis.kind === 'server') return `Redis at ${addresses([redis.address])}`
  if (redis.kind === 'cluster') return `Redis cluster at ${addresses(redis.nodes)}`
  return `Redis master ${redis.name} by sentinels at ${addresses(redis.sentinels)}`
}
