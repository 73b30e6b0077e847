/** Reads the keys of a token issuer and checks signatures with them; the only file that knows jose. */
import { createRequire } from 'node:module'
import type * as Jose from 'jose'
import type { CompactVerifyGetKey, JSONWebKeySet } from 'jose'
import type { JwtConfig } from '../../config/config.ts'
import type { TokenStatement } from '../rules/token-claims.ts'

/** How many keys are tried for a token that names none. */
const maxKeysTried = 4

let loaded: typeof Jose | undefined
/** jose is loaded with the first key set, as most gateways take no tokens. */
const jose = (): typeof Jose => (loaded ??= createRequire(import.meta.url)('jose') as typeof Jose)

export interface KeySet {
  readonly find: ReturnType<typeof Jose.createLocalJWKSet>
  readonly kids: ReadonlySet<unknown>
  /** Each key as JSON. */
  readonly texts: ReadonlySet<string>
  /** Statements of tokens that it has proven, by the token's digest. */
  readonly proven: Map<string, TokenStatement>
}

/** Whether the set has the key of a token; one without a key id, which is optional (RFC 7515 section 4.1.4), is tried on the set as it is. */
export function covers(keys: KeySet | undefined, kid: string | undefined): boolean {
  return keys !== undefined && (kid === undefined || keys.kids.has(kid))
}

/** Whether a key of the set signed the token. Its claims were checked before. */
export async function isProven(
  token: string,
  keys: KeySet,
  algorithms: JwtConfig['algorithms'],
): Promise<boolean> {
  const { errors, compactVerify } = jose()
  const signedBy = (find: CompactVerifyGetKey): Promise<unknown> =>
    compactVerify(token, find, { algorithms: [...algorithms] }).then(
      () => true,
      (error: unknown) => error,
    )
  const verdict = await signedBy(keys.find)
  if (!(verdict instanceof errors.JWKSMultipleMatchingKeys)) return verdict === true
  let tried = 0
  for await (const key of verdict)
    if (tried++ < maxKeysTried && (await signedBy(() => key)) === true) return true
  return false
}

/**
 * Throws when the text is not a key set, or an empty one: that would lock every token out. before: what it has proven stays
 * proven, unless one of its keys is missing or has changed.
 */
export function parseKeySet(text: string, before?: KeySet): KeySet {
  let set: unknown
  try {
    set = JSON.parse(text)
  } catch {
    // The parser's own message quotes the text.
    throw new Error('not JSON')
  }
  const find = jose().createLocalJWKSet(set as JSONWebKeySet)
  const { keys } = find.jwks()
  if (keys.length === 0) throw new Error('holds no key')
  const texts = new Set(keys.map((key) => JSON.stringify(key)))
  const isWithdrawn = before && [...before.texts].some((key) => !texts.has(key))
  const proven = before === undefined || isWithdrawn ? new Map() : before.proven
  return { find, kids: new Set(keys.map((key) => key.kid)), texts, proven }
}
