/** What is known of why a store cannot be used, and whether waiting may help: a server that refuses this gateway needs an operator. */
import type { RedisConfig } from '../config/config.ts'
import { faultWord } from './faults.ts'
import { nameServers } from './servers.ts'

/** By words of faultWord: fault; remedy. The first that fits. */
const refusals: readonly (readonly [RegExp, string])[] = [
  [/^WRONGPASS$/, 'it knows no such user, or another password; correct username and password'],
  [/^NOAUTH$/, 'it asks for a password; give one'],
  [/^NOPERM$/, 'its user lacks a right; grant all that config/gateway.yaml lists'],
  [/^DENIED$/, 'it is in protected mode and serves its own host alone; give it a password'],
  [/^NO_DATABASE$/, 'it has no database of this number; correct db, or the path of the URL'],
  [/^NO_CLUSTER$/, 'it is no node of a cluster; give it as url'],
  [/^MOVED$/, 'it is a node of a cluster; give it as cluster'],
  [/^NO_MASTER$/, 'no master of this name is known; correct name'],
  [/^NO_TLS$/, 'it does not speak TLS; use redis://, or its port for TLS'],
  [/^TLS_ONLY$/, 'it speaks TLS; use rediss://, or tls: {}'],
  [/^CERT_HAS_EXPIRED$/, 'its certificate has expired; renew it'],
  [/^CERT_NOT_YET_VALID$/, 'its certificate is not valid yet; compare the clocks'],
  [
    /^ERR_TLS_CERT_ALTNAME_INVALID$/,
    'its certificate is for another name; correct the host, or give that name as tls.serverName',
  ],
  [/^ERR_(SSL|TLS)_/, 'it refuses the TLS connection; correct tls.cert and tls.key'],
  [
    /CERT|^UNABLE_TO_|^INVALID_|^PATH_LENGTH_|^HOSTNAME_/,
    'no trusted authority has signed its certificate; give that authority as tls.ca',
  ],
]

/**
 * Told when a server is lost (false), when that turns out to be a refusal or no longer is one, and when all are usable (true),
 * the first time included. cause: one word. refusal: server, fault and remedy.
 */
export type StateListener = (available: boolean, cause: string, refusal?: string) => void

/** A refusal is repeated with each attempt to connect; one that is not any more has become an outage. */
const STANDS_MS = 5_000

export class StoreState {
  readonly #servers: RedisConfig
  readonly #onState: StateListener
  /** undefined: not yet known; written by become. */
  #isWhole: boolean | undefined
  /** Since the store was last whole; written by note and become. */
  #last: unknown
  #refusal: { readonly word: string; readonly text: string; readonly atMs: number } | undefined
  /** The cause that was told last. */
  #cause = ''

  constructor(servers: RedisConfig, onState: StateListener) {
    this.#servers = servers
    this.#onState = onState
  }

  /** Server, fault and remedy, while one refuses this gateway. */
  get refusal(): string | undefined {
    return this.#isWhole === true ? undefined : this.#refusal?.text
  }

  /** server: the one whose fault it is, where that is known. */
  note(fault: unknown, server = nameServers(this.#servers)): void {
    this.#last = fault
    const word = faultWord(fault)
    const [, what] = refusals.find(([pattern]) => pattern.test(word)) ?? []
    const nowMs = performance.now()
    if (what !== undefined)
      this.#refusal = { word, text: `store.redis: ${server}: ${word}: ${what}`, atMs: nowMs }
    else if (this.#refusal === undefined || !this.#isStale()) return
    if (this.#isWhole === false && word !== this.#cause) this.become(false)
  }

  /** Whether every server is usable. */
  become(isWhole: boolean): void {
    this.#isWhole = isWhole
    if (this.#isStale()) this.#refusal = undefined
    this.#cause = this.#refusal?.word ?? faultWord(this.#last)
    this.#onState(isWhole, this.#cause, this.refusal)
    if (!isWhole) return
    this.#last = undefined
    this.#refusal = undefined
  }

  #isStale(): boolean {
    return this.#refusal !== undefined && performance.now() - this.#refusal.atMs > STANDS_MS
  }
}
