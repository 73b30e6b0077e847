/** Reads the claims of a signed token and checks them, before any signature is checked. */

import type { JwtConfig } from '../../config/config.ts'

/** The accepted claims of a token; nothing here is proven until its signature is. */
export interface TokenStatement {
  readonly kid: string | undefined
  readonly clientId: string
  readonly plan: string | undefined
  /** Unix time in ms from which the token is refused. */
  readonly expiresAtMs: number
}

type Json = Record<string, unknown>

/**
 * Visible ASCII without spaces: the id travels in a header to the backend and is part of store keys. `.` and `..`
 * are excluded, as no path can end in them (RFC 3986 section 5.2.4) and operators must be able to name every client.
 */
const clientIdForm = /^(?!\.{1,2}$)[\x21-\x7e]{1,128}$/

/**
 * Reads a token of the strict three-part form and applies every rule that needs no key, so that a flood of
 * made-up tokens costs no public-key arithmetic. undefined: the token is refused whatever its signature.
 */
export function readToken(
  token: string,
  rules: JwtConfig,
  nowMs: number,
): TokenStatement | undefined {
  const [headerPart = '', claimsPart = '', signaturePart = ''] = token.split('.')
  const header = readPart(headerPart)
  const claims = readPart(claimsPart)
  if (!header || !claims || !isCanonical(signaturePart)) return undefined
  const kid = own(header, 'kid')
  if (kid !== undefined && typeof kid !== 'string') return undefined
  const algorithm = own(header, 'alg')
  if (typeof algorithm !== 'string' || !rules.algorithms.includes(algorithm)) return undefined
  // RFC 7515 section 4.1.11: extensions that are not understood must be refused; none is understood here.
  if (Object.hasOwn(header, 'crit')) return undefined
  const expiresAtMs = currentUntilMs(claims, rules, nowMs)
  const clientId = own(claims, rules.clientClaim)
  const plan = own(claims, rules.planClaim)
  if (expiresAtMs === undefined || typeof clientId !== 'string') return undefined
  if (!clientIdForm.test(clientId)) return undefined
  return { kid, clientId, plan: typeof plan === 'string' ? plan : undefined, expiresAtMs }
}

/** Expiry of claims that hold now, in Unix ms; undefined: they do not (RFC 7519 sections 4.1.1 to 4.1.5, without clock tolerance). */
function currentUntilMs(claims: Json, rules: JwtConfig, nowMs: number): number | undefined {
  if (own(claims, 'iss') !== rules.issuer) return undefined
  const isMeant = [own(claims, 'aud')].flat().includes(rules.audience)
  const expires = own(claims, 'exp')
  const notBefore = own(claims, 'nbf')
  if (!isMeant || !Number.isFinite(expires) || typeof expires !== 'number') return undefined
  if (notBefore !== undefined && !(typeof notBefore === 'number' && notBefore * 1000 <= nowMs))
    return undefined
  return nowMs < expires * 1000 ? expires * 1000 : undefined
}

function readPart(part: string): Json | undefined {
  if (!isCanonical(part)) return undefined
  try {
    const value: unknown = JSON.parse(Buffer.from(part, 'base64url').toString('utf8'))
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Json)
      : undefined
  } catch {
    return undefined
  }
}

/** The unused bits of the last character must be zero (RFC 4648 section 3.5): one token, one spelling. */
function isCanonical(part: string): boolean {
  return Buffer.from(part, 'base64url').toString('base64url') === part
}

/** A claim's name may come from anywhere; only the token's own members count, never those of Object.prototype. */
function own(object: Json, name: string): unknown {
  return Object.hasOwn(object, name) ? object[name] : undefined
}
