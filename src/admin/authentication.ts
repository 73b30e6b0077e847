/** Identifies callers of the admin API, and decides whether they may use it. */
import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { AdminConfig } from '../config/config.ts'
import { fault, type Answer } from './answers.ts'

const credentialNeeded = (message: string): Answer =>
  fault(
    { status: 401, code: 'invalid_token', message },
    { fields: { 'WWW-Authenticate': 'Bearer' } },
  )

const tokenNeeded = credentialNeeded(
  'Send the token of admin.tokenSha256 as "Authorization: Bearer <TOKEN>".',
)
const certificateNeeded = credentialNeeded(
  'Connect with a client certificate of admin.tls.clientCa.',
)

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
  const digest = createHash('sha256').update(token).digest()
  const isKnown = timingSafeEqual(digest, Buffer.from(tokenSha256, 'hex'))
  return isKnown ? `token ${tokenSha256.slice(0, 8)}` : tokenNeeded
}
