/** Turns a signed token (JWT) into a caller. */
import { hash } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import type { JwtConfig } from '../config/config.ts'
import { isJwtForm, type Caller } from '../rules/credentials.ts'
import { isRefusal, type Refusal } from '../rules/refusals.ts'
import {
  readToken,
  tokenRules,
  type TokenRules,
  type TokenStatement,
} from '../rules/token-claims.ts'
import type { JwksTiming } from './jwks-source.ts'
import {
  covers,
  isProven,
  openKeySource,
  readKeyFile,
  type KeySet,
  type KeySource,
} from './key-set.ts'
import type { TokenCallers } from './token-callers.ts'
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
  readonly observer: JwtObserver
  readonly timing?: Partial<JwksTiming> | undefined
}

const maxRemembered = 10_000
// Signatures are checked on Node's pool of four threads; at some 100 us each the whole queue is below 50 ms of work.
const gateLimits = { running: 8, waiting: 1024 }
/** Throws an Error that names the fault when jwksFile cannot be used, or an algorithm is not a public-key one. */
export const createJwtVerifier = (config: JwtConfig, options: JwtVerifierOptions): JwtVerifier =>
  new JwtVerifier(config, options)

export class JwtVerifier {
  readonly #config: JwtConfig
  readonly #rules: TokenRules
  readonly #observer: JwtObserver
  readonly #remembered = new Map<string, Proven>()
  readonly #underway = new Map<string, Promise<Proven | Refusal>>()
  readonly #gate = createWorkGate(gateLimits)
  /** Of jwksFile. */
  readonly #keyText: string | undefined
  readonly #source: KeySource
  readonly #first: Promise<void>
  /** Why the latest fetch of the key set failed; undefined: it did not. */
  fault: KeySetFault | undefined

  constructor(config: JwtConfig, { observer, timing }: JwtVerifierOptions) {
    this.#config = config
    this.#rules = tokenRules(config)
    this.#observer = observer
    this.#keyText = config.jwksFile && readKeyFile(config.jwksFile)
    this.#source = openKeySource(config, this.#keyText, {
      timing,
      // A key may have been withdrawn, so tokens it signed are checked again.
      onChange: () => this.#remembered.clear(),
      onFetched: (cause) => {
        this.fault = cause === undefined ? undefined : { cause, hasKeys: this.#hasKeys }
        observer.keySetFetched(this.fault)
      },
    })
    this.#first = this.#source.refresh()
  }

  /**
   * Answers the caller of a valid token, by the configuration that asks; at once if the token was seen before. Refuses any other with
   * invalid_api_key, or with service_unavailable where it cannot tell. Never rejects. `nowMs` is Unix time in ms.
   */
  verify(token: string, nowMs: number, callers: TokenCallers): Verdict | Promise<Verdict> {
    if (!isJwtForm(token)) return BAD_CLAIMS
    const digest = hash('sha256', token, 'hex')
    const known = this.#remembered.get(digest)
    if (known && nowMs < known.statement.expiresAtMs) return callerOf(known, callers)
    if (known) this.#remembered.delete(digest)
    let proof = this.#underway.get(digest)
    if (proof === undefined) {
      const statement = readToken(token, this.#rules, nowMs)
      if (!statement) return BAD_CLAIMS
      const caller = callers.callerOf(statement)
      if (caller === undefined) return NO_PLAN
      const proven = { statement, caller, of: callers.id }
      proof = this.#prove(token, digest, proven, nowMs)
      this.#underway.set(digest, proof)
    }
    return proof.then((proven) => (isRefusal(proven) ? proven : callerOf(proven, callers)))
  }

  /** Resolves when the key set was loaded or could not be; until it is, nobody can tell of a token. */
  ready(): Promise<void> {
    return this.#first
  }

  /** Whether one for this configuration would be the same. Throws an Error that names the fault when jwksFile cannot be read. */
  isFor(config: JwtConfig): boolean {
    return (
      isDeepStrictEqual(config, this.#config) &&
      (config.jwksFile && readKeyFile(config.jwksFile)) === this.#keyText
    )
  }

  /** Fetches no more but what requests wait for already. */
  retire(): void {
    this.#source.retire()
  }

  /** Ends a fetch under way, too. */
  close(): void {
    this.#source.close()
  }

  get #hasKeys(): boolean {
    return this.#source.current !== undefined
  }

  async #prove(
    token: string,
    digest: string,
    proven: Proven,
    nowMs: number,
  ): Promise<Proven | Refusal> {
    try {
      const keys = await this.#keysFor(proven.statement, nowMs)
      if (isRefusal(keys)) return keys
      const isGood = await this.#gate.run(() => isProven(token, keys, this.#config, nowMs))
      if (isGood === undefined) return this.#cannotTell('busy')
      if (!isGood) return BAD_SIGNATURE
      // The set may have changed while the signature was checked; such a token is believed once, not remembered.
      if (this.#source.current === keys) remember(this.#remembered, digest, proven)
      return proven
    } finally {
      this.#underway.delete(digest)
    }
  }

  async #keysFor({ kid }: TokenStatement, nowMs: number): Promise<KeySet | Refusal> {
    const source = this.#source
    const renewal = covers(source.current, kid) ? undefined : source.renew(nowMs)
    if (renewal === 'full') return this.#cannotTell('busy')
    await renewal
    const keys = source.current
    if (keys === undefined) return this.#cannotTell('no_key_set')
    return covers(keys, kid) ? keys : UNKNOWN_KEY
  }

  #cannotTell(reason: UnavailableReason): Refusal {
    this.#observer.unavailable(reason)
    return unavailable[reason]
  }
}

/** A token that was believed, and whose it is by the configuration that was last asked for it. */
interface Proven {
  readonly statement: TokenStatement
  of: TokenCallers['id']
  caller: Caller | undefined
}

function callerOf(proven: Proven, callers: TokenCallers): Verdict {
  if (proven.of !== callers.id) {
    proven.caller = callers.callerOf(proven.statement)
    proven.of = callers.id
  }
  return proven.caller ?? NO_PLAN
}

function remember(all: Map<string, Proven>, digest: string, proven: Proven): void {
  const oldest = all.size >= maxRemembered ? all.keys().next() : undefined
  if (oldest && !oldest.done) all.delete(oldest.value)
  all.set(digest, proven)
}
