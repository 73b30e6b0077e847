/** Turns a signed token (JWT) into a caller; the only file that knows jose. */
import { hash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createLocalJWKSet, errors, jwtVerify, type CryptoKey, type JSONWebKeySet } from 'jose'
import type { Clients, JwtConfig, PlanConfig } from '../config/config.ts'
import { createCaller, isJwtForm, type Caller } from '../rules/credentials.ts'
import { isRefusal, type Refusal } from '../rules/refusals.ts'
import { readToken, tokenRules, type TokenStatement } from '../rules/token-claims.ts'
import { JwksSource, type JwksTiming } from './jwks-source.ts'
import {
  BAD_CLAIMS,
  BAD_SIGNATURE,
  NO_PLAN,
  UNKNOWN_KEY,
  unavailable,
  type UnavailableReason,
  type Verdict,
} from './verdicts.ts'
import { createWorkGate } from './work-gate.ts'

/**
 * verify answers the caller of a valid token, at once if the token was seen before. It refuses any other with
 * invalid_api_key, or with service_unavailable where it cannot tell. It never rejects. `nowMs` is Unix time in ms.
 * ready resolves when the key set was loaded or could not be; until it is, nobody can tell of a token.
 */
export type JwtVerifier = ReturnType<typeof createJwtVerifier>

/** The last fetch of the key set failed. */
export interface KeySetFault {
  readonly cause: string
  /** An older set is there and stays in use. */
  readonly hasKeys: boolean
}

export interface JwtObserver {
  /** A fetch of the key set has ended; undefined: well. */
  keySetFetched(fault: KeySetFault | undefined): void
  /** May be called very often. */
  unavailable(reason: UnavailableReason): void
}

export interface JwtVerifierOptions {
  /** A token whose client is configured gets that client's plan, limits and quota. */
  readonly clients: Pick<Clients, 'get'>
  readonly plans: ReadonlyMap<string, PlanConfig>
  /** See createCaller. */
  readonly isStructured: boolean
  readonly observer: JwtObserver
  readonly timing?: Partial<JwksTiming> | undefined
}

const maxRemembered = 10_000
// Signatures are checked on Node's pool of four threads; at some 100 us each the whole queue is below 50 ms of work.
const gateLimits = { running: 8, waiting: 1024 }
/** How many keys are tried for a token that names none. */
const maxKeysTried = 4

interface KeySet {
  readonly find: ReturnType<typeof createLocalJWKSet>
  readonly kids: ReadonlySet<unknown>
}

type KeySource = Pick<JwksSource<KeySet>, 'current' | 'refresh' | 'renew' | 'close'>

/** Throws an Error that names the fault when jwksFile cannot be used, or an algorithm is not a public-key one. */
export function createJwtVerifier(config: JwtConfig, options: JwtVerifierOptions) {
  const rules = tokenRules(config)
  const remembered = new Map<string, Caller>()
  const underway = new Map<string, Promise<Verdict>>()
  const gate = createWorkGate(gateLimits)
  // A key may have been withdrawn, so tokens it signed are checked again.
  const source = openKeySource(config, options, () => remembered.clear())
  const first = source.refresh()

  const cannotTell = (reason: UnavailableReason): Refusal => {
    options.observer.unavailable(reason)
    return unavailable[reason]
  }
  const keysFor = async ({ kid }: TokenStatement, nowMs: number): Promise<KeySet | Refusal> => {
    const renewal = covers(source.current, kid) ? undefined : source.renew(nowMs)
    if (renewal === 'full') return cannotTell('busy')
    await renewal
    const keys = source.current
    if (keys === undefined) return cannotTell('no_key_set')
    return covers(keys, kid) ? keys : UNKNOWN_KEY
  }
  const prove = async (
    token: string,
    digest: string,
    statement: TokenStatement,
    nowMs: number,
  ): Promise<Verdict> => {
    const caller = toCaller(statement, options)
    if (caller === undefined) return NO_PLAN
    const keys = await keysFor(statement, nowMs)
    if (isRefusal(keys)) return keys
    const proven = await gate.run(() => isProven(token, keys, config, nowMs))
    if (proven === undefined) return cannotTell('busy')
    if (!proven) return BAD_SIGNATURE
    // The set may have changed while the signature was checked; such a token is believed once, not remembered.
    if (source.current === keys) remember(remembered, digest, caller)
    return caller
  }

  return {
    verify: (token: string, nowMs: number): Verdict | Promise<Verdict> => {
      if (!isJwtForm(token)) return BAD_CLAIMS
      const digest = hash('sha256', token, 'hex')
      const known = remembered.get(digest)
      if (known && nowMs < known.expiresAtMs) return known
      if (known) remembered.delete(digest)
      const earlier = underway.get(digest)
      if (earlier) return earlier
      const statement = readToken(token, rules, nowMs)
      if (!statement) return BAD_CLAIMS
      const proof = prove(token, digest, statement, nowMs).finally(() => underway.delete(digest))
      underway.set(digest, proof)
      return proof
    },
    ready: (): Promise<void> => first,
    close: (): void => source.close(),
  }
}

function remember(all: Map<string, Caller>, digest: string, proven: Caller): void {
  const oldest = all.size >= maxRemembered ? all.keys().next() : undefined
  if (oldest && !oldest.done) all.delete(oldest.value)
  all.set(digest, proven)
}

function toCaller(
  { clientId, plan: planName, expiresAtMs }: TokenStatement,
  { clients, plans, isStructured }: JwtVerifierOptions,
): Caller | undefined {
  const keyId = `jwt:${clientId}`
  const client = clients.get(clientId)
  const planned = planName === undefined ? undefined : plans.get(planName)
  const plan = client?.plan ?? planned?.name
  // A custom plan has no limits of its own, so only configured clients can be on it.
  const limits = client?.limits ?? planned?.limits
  const concurrent = client?.concurrent ?? planned?.concurrent
  if (plan === undefined || limits === undefined || concurrent === undefined) return undefined
  const caller = { clientId, plan, keyId, limits, concurrent, expiresAtMs, keyDigest: undefined }
  return createCaller(caller, isStructured)
}

/** A token without a key id (RFC 7515 section 4.1.4 leaves it out at will) is tried on the set as it is. */
function covers(keys: KeySet | undefined, kid: string | undefined): boolean {
  return keys !== undefined && (kid === undefined || keys.kids.has(kid))
}

/** Whether a key of the set signed the token, and jose too finds its claims in order. */
async function isProven(
  token: string,
  keys: KeySet,
  config: JwtConfig,
  nowMs: number,
): Promise<boolean> {
  const demands = {
    algorithms: [...config.algorithms],
    issuer: config.issuer,
    audience: config.audience,
    requiredClaims: ['exp', config.clientClaim],
    clockTolerance: 0,
    currentDate: new Date(nowMs),
  }
  const signedBy = (key: KeySet['find'] | CryptoKey): Promise<unknown> =>
    (typeof key === 'function'
      ? jwtVerify(token, key, demands)
      : jwtVerify(token, key, demands)
    ).then(
      () => true,
      (error: unknown) => error,
    )
  const verdict = await signedBy(keys.find)
  if (!(verdict instanceof errors.JWKSMultipleMatchingKeys)) return verdict === true
  let tried = 0
  for await (const key of verdict)
    if (tried++ < maxKeysTried && (await signedBy(key)) === true) return true
  return false
}

function openKeySource(
  config: JwtConfig,
  options: JwtVerifierOptions,
  onChange: () => void,
): KeySource {
  const { jwksFile, jwksUri } = config
  if (jwksFile !== undefined) {
    return {
      current: readKeyFile(jwksFile),
      refresh: () => Promise.resolve(),
      renew: () => 'recent',
      close: () => undefined,
    }
  }
  if (jwksUri === undefined) throw new Error('jwt: neither jwksUri nor jwksFile is set')
  const { observer, timing } = options
  const onFetched = (cause: string | undefined): void =>
    observer.keySetFetched(cause === undefined ? undefined : { cause, hasKeys: hasKeys() })
  const source = new JwksSource({ uri: jwksUri, parse: parseKeySet, onChange, onFetched, timing })
  const hasKeys = (): boolean => source.current !== undefined
  return source
}

function readKeyFile(path: string): KeySet {
  try {
    return parseKeySet(readFileSync(path, 'utf8'))
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause)
    throw new Error(`jwt.jwksFile ${path}: ${reason}`, { cause })
  }
}

/** Throws when the text is not a key set, or an empty one: that would lock every token out. */
function parseKeySet(text: string): KeySet {
  let set: unknown
  try {
    set = JSON.parse(text)
  } catch {
    // The parser's own message quotes the text.
    throw new Error('not JSON')
  }
  const find = createLocalJWKSet(set as JSONWebKeySet)
  const { keys } = find.jwks()
  if (keys.length === 0) throw new Error('holds no key')
  return { find, kids: new Set(keys.map((key) => key.kid)) }
}
