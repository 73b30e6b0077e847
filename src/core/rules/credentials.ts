/** Reads the one credential of a request, and describes the caller that a valid one proves. */
import type { ClientConfig, KeyConfig, Limits } from '../../config/config.ts'
import { refuse, type Refusal } from './refusals.ts'
import { policyHeader } from './quota-headers.ts'

/** The authenticated sender of a request. It is built once per key or token and shared by all its requests, so it is frozen. */
export interface Caller {
  /** Quota is counted per client, for all its keys together. */
  readonly clientId: string
  readonly plan: string
  /** Bans are per key. The key's id from the configuration, or `jwt:<clientId>` for tokens. */
  readonly keyId: string
  readonly limits: Limits
  /** Most requests of the client at once, per worker. */
  readonly concurrent: number
  /** SHA-256 of the key, in hex; undefined for tokens. */
  readonly keyDigest: string | undefined
  /** Unix time in ms from which the key or token is refused; Infinity: never. */
  readonly expiresAtMs: number
  /** The RateLimit-Policy value of these limits; undefined: answers have neither RateLimit-Policy nor RateLimit. */
  readonly policy: string | undefined
}

/** key: a token has an id and an end alone. isStructured: server.structuredQuotaHeaders. */
export function createCaller(
  { id: clientId, plan, limits, concurrent }: Omit<ClientConfig, 'keys'>,
  key: Pick<KeyConfig, 'id'> & Partial<KeyConfig>,
  isStructured: boolean,
): Caller {
  const { id: keyId, sha256: keyDigest, expiresAtMs = Infinity } = key
  const known = { clientId, plan, keyId, limits, concurrent, keyDigest, expiresAtMs }
  return Object.freeze({ ...known, policy: isStructured ? policyHeader(limits) : undefined })
}

/** Longest credential that is read, in characters; longer ones are malformed. */
const maxTokenLength = 8192

// RFC 9110 section 11.4: scheme in any case, then one or more spaces; RFC 6750 section 2.1: b64token.
const bearer = /^bearer +[A-Za-z0-9\-._~+/]+=*$/i
/** Matches a token that stands without its scheme. */
const bare = /^(?!bearer$)[A-Za-z0-9\-._~+/]+=*$/i

const MISSING = refuse('missing_api_key')
const NO_SCHEME = refuse('missing_api_key', {
  cause: 'no Bearer before the key',
  detail: 'Put "Bearer" before the key.',
})
const NOT_BEARER = refuse('invalid_api_key', { cause: 'not a Bearer token' })

/**
 * Returns the token of the Authorization header. Refuses with missing_api_key (no header, an empty one, or a token without its
 * scheme) or invalid_api_key. count: number of these headers; two are an ambiguity that another reader may settle the other way.
 */
export function readBearer(authorization: string | undefined, count: number): string | Refusal {
  if (count > 1) return refuse('invalid_api_key', { cause: 'several Authorization headers' })
  if (authorization === undefined || authorization.trim() === '') return MISSING
  if (authorization.length > maxTokenLength + 'bearer '.length)
    return refuse('invalid_api_key', { cause: 'Authorization header too long' })
  if (bearer.test(authorization)) return authorization.slice(authorization.lastIndexOf(' ') + 1)
  return bare.test(authorization) ? NO_SCHEME : NOT_BEARER
}

const jwtForm = /^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$/

/**
 * Whether the text is three base64url parts, as RFC 7515 section 7.1 writes a signed token: no padding, no spaces.
 * Decoders accept more than that, which would give one token many spellings.
 */
export function isJwtForm(token: string): boolean {
  return token.length <= maxTokenLength && jwtForm.test(token)
}
