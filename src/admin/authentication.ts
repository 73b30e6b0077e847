/** Decides whether a request is meant for the admin listener and comes from no page of another site, and who its caller is. */
import { hash, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { TLSSocket } from 'node:tls'
import type { AdminConfig } from '../config/config.ts'
import { isLoopback } from '../config/hosts.ts'
import { fault, type Answer } from './answers.ts'

const fields = { 'WWW-Authenticate': 'Bearer' }
const tokenNeeded = fault('invalid_token', { fields })
const certificateNeeded = fault('invalid_token', {
  message: 'Connect with a client certificate of admin.tls.clientCa.',
  fields,
})

/** Returns the caller's name for the audit log, or the Answer that refuses them. certified: the name in an accepted client certificate. */
export function callerOf(
  { tokenSha256, tls }: AdminConfig,
  { headers, socket }: IncomingMessage,
  certified: string | undefined,
): string | Answer {
  if (certified !== undefined) return `certificate ${certified}`
  if (tokenSha256 === undefined)
    return tls?.clientCaFile === undefined ? (socket.remoteAddress ?? 'unknown') : certificateNeeded
  const [, token] = /^Bearer +([!-~]+)$/i.exec(headers.authorization ?? '') ?? []
  if (token === undefined) return tokenNeeded
  const digest = hash('sha256', token, 'buffer')
  const isKnown = timingSafeEqual(digest, Buffer.from(tokenSha256, 'hex'))
  return isKnown ? `token ${tokenSha256.slice(0, 8)}` : tokenNeeded
}

/**
 * Whether the request names this listener. A page of another site, whose name is made to point here (DNS rebinding),
 * sends that name as its Host. The address that was connected to is a name too. Ports are ignored, as they are often mapped.
 */
export function isOwnHost({ headers, socket }: IncomingMessage, names: readonly string[]): boolean {
  // Only HTTP/1.0 leaves Host out: old load balancers probe with it, and no browser uses it.
  if (headers.host === undefined) return true
  const [, ipv6, other] = /^(?:\[([^\]]+)\]|([^:]+))(?::\d*)?$/.exec(headers.host) ?? []
  const host = (ipv6 ?? other)?.toLowerCase()
  if (host === undefined) return false
  // A listener of both families prefixes IPv4 addresses.
  const address = socket.localAddress?.replace(/^::ffff:/, '')
  return isLoopback(host) || host === address || names.some((name) => name.toLowerCase() === host)
}

/**
 * A browser says which page asks; that must be one of this very listener, by the scheme, name and port that the request is
 * for, or by one of `admin.hosts` where a proxy stands between. A page of another port of this machine is as foreign as any.
 */
export function isOwnOrigin(
  { headers, socket }: IncomingMessage,
  hosts: readonly string[],
): boolean {
  const { origin, host } = headers
  if (origin === undefined) return true
  // A page that hides its origin sends `null`.
  if (!/^https?:\/\/[^/]+$/.test(origin) || !URL.canParse(origin)) return false
  const page = new URL(origin)
  const own = `${socket instanceof TLSSocket ? 'https' : 'http'}://${host}`
  if (URL.canParse(own) && new URL(own).origin === page.origin) return true
  return hosts.some((name) => name.toLowerCase() === page.hostname)
}
