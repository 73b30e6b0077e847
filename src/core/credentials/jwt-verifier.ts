/** Proves what a signed token (JWT) says. */
import { hash } from 'node:crypto'
import { isJwtForm } from '../rules/credentials.ts'
import { isRefusal, refuse, type Refusal } from '../rules/refusals.ts'
import { readToken, type TokenStatement } from '../rules/token-claims.ts'
import { keepLatest } from '../../state/memory/recency-table.ts'
import { CheckBudget } from './check-budget.ts'
import { covers, isProven, type KeySet } from './key-set.ts'
import { KeySource, type KeyObserver } from './key-source.ts'
import type { TokenPolicy } from './callers.ts'
import { createWorkGate } from './work-gate.ts'

// The causes of these refusals are for the log alone.
const invalid = (cause: string): Refusal => refuse('invalid_api_key', { cause })
const notChecked = (cause: string, retryAfterSeconds = 1): Refusal =>
  refuse('service_unavailable', { cause, retryAfterSeconds })

export const BAD_CLAIMS = invalid(
  'the token: its form, algorithm, issuer, audience, times or client',
)
export const NO_PLAN = invalid('the token: no plan with limits')
const UNKNOWN_KEY = invalid('the token: the issuer has no such key')
const BAD_SIGNATURE = invalid('the token: its signature')
/** The address of the token is over the anonymous limit as well. */
export const UNCHECKED = notChecked(
  'the token: its address has used up its share of signature checks',
)
const unavailable = {
  no_key_set: notChecked('no key set of the token issuer has come yet', 5),
  unknown_key: notChecked('no key set has come since the token named an unknown key'),
  busy: notChecked('too many tokens are being checked'),
}
export type UnavailableReason = keyof typeof unavailable

interface JwtObserver extends KeyObserver {
  /** May be called very often. */
  unavailable(reason: UnavailableReason): void
}

interface Question {
  readonly token: string
  readonly digest: string
  readonly statement: TokenStatement
  readonly address: string
  readonly policy: Pick<TokenPolicy, 'isOverLimit'>
}

const maxRemembered = 10_000

export class JwtVerifier extends KeySource<JwtObserver> {
  readonly #underway = new Map<string, Promise<TokenStatement | Refusal>>()
  // Signatures are checked on Node's pool of four threads, two of which stay free for files, names and compression. At 0.1 ms (ES256)
  // to 1.3 ms (ES512) each, all lines together are 50 to 700 ms of work.
  readonly #gate = createWorkGate({ running: 2, waiting: 1024 })
  readonly #checks = new CheckBudget()

  /**
   * Returns what a valid token says, at once if the token was seen before. Refuses any other token with invalid_api_key, or with
   * service_unavailable where it could not be checked; one that names no caller of the policy is not checked. Never rejects.
   * `nowMs` is Unix time in ms, `address` any text that names the sender's address.
   */
  verify(
    token: string,
    nowMs: number,
    policy: TokenPolicy<unknown>,
    address: string,
  ): TokenStatement | Refusal | Promise<TokenStatement | Refusal> {
    if (!isJwtForm(token)) return BAD_CLAIMS
    const digest = hash('sha256', token, 'hex')
    const known = this.current?.proven.get(digest)
    if (known && nowMs < known.expiresAtMs) return known
    const underway = this.#underway.get(digest)
    if (underway !== undefined) return underway
    const statement = readToken(token, this.config, nowMs)
    if (!statement) return BAD_CLAIMS
    if (policy.callerOf(statement) === undefined) return NO_PLAN
    const proof = this.#prove({ token, digest, statement, address, policy })
    this.#underway.set(digest, proof)
    return proof
  }

  async #prove(question: Question): Promise<TokenStatement | Refusal> {
    const { token, digest, statement, address, policy } = question
    try {
      const keys = await this.#keysFor(statement, address)
      if (isRefusal(keys)) return keys
      const sender = { address, clientId: statement.clientId }
      const hasRoom = this.#checks.hasRoom(sender, performance.now())
      if (!hasRoom && (await policy.isOverLimit(address))) return UNCHECKED
      this.#checks.began(sender, performance.now())
      const isGood = await this.#gate(address, () => isProven(token, keys, this.config.algorithms))
      this.#checks.ended(sender, isGood)
      if (isGood === undefined) return this.#refuseUnavailable('busy')
      if (!isGood) return BAD_SIGNATURE
      keepLatest(keys.proven, digest, statement, maxRemembered)
      return statement
    } finally {
      this.#underway.delete(digest)
    }
  }

  async #keysFor({ kid }: TokenStatement, address: string): Promise<KeySet | Refusal> {
    const isRenewed = covers(this.current, kid) || (await this.renew(address))
    const keys = this.current
    if (keys === undefined) return this.#refuseUnavailable('no_key_set')
    if (covers(keys, kid)) return keys
    return isRenewed ? UNKNOWN_KEY : this.#refuseUnavailable('unknown_key')
  }

  #refuseUnavailable(reason: UnavailableReason): Refusal {
    this.observer.unavailable(reason)
    return unavailable[reason]
  }
}
