/** Rules about hosts, without the schema: worker processes need them too, and receive a configuration that has been read. */
import { isIPv4 } from 'node:net'

/** RFC 3986 3.2.2: an IPv6 address stands in brackets. */
export const hostForUrl = (host: string): string => (host.includes(':') ? `[${host}]` : host)

/** Whether only this machine can reach the host: 127.0.0.0/8, ::1 or localhost. Brackets are allowed. */
export const isLoopback = (host: string): boolean => {
  const bare = host.replace(/^\[(.*)\]$/, '$1').toLowerCase()
  return bare === 'localhost' || bare === '::1' || (isIPv4(bare) && bare.startsWith('127.'))
}
