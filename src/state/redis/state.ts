/** Keeps why a store cannot be used, and whether waiting may help: a server that refuses this gateway needs an operator. */
import type { RedisConfig } from '../../config/config.ts'
import { describeFault } from './faults.ts'
import { nameServers } from './servers.ts'

/**
 * Called with false when a server is lost, and when that turns out to be a refusal or no longer is one; with true when all
 * servers are usable, including the first time. cause: one word. refusal: server, fault and remedy.
 */
export type StateListener = (available: boolean, cause: string, refusal?: string) => void

/** A refusal repeats with each attempt to connect; one that does not for so long has become an outage. */
const STANDS_MS = 5_000

export class StoreState {
  readonly #servers: RedisConfig
  readonly #onState: StateListener
  /** undefined: not yet known; written by become. */
  #isWhole: boolean | undefined
  /** The last fault and the last refusal since the store was whole; written by note and become. */
  word = 'connection lost'
  #refusal: { readonly word: string; readonly text: string; readonly atMs: number } | undefined
  /** The cause reported last. */
  #cause = ''
  readonly #recovered: (() => void)[] = []

  constructor(servers: RedisConfig, onState: StateListener) {
    this.#servers = servers
    this.#onState = onState
  }

  /** Server, fault and remedy, while a server refuses this gateway. */
  get refusal(): string | undefined {
    return this.#isWhole === true ? undefined : this.#refusal?.text
  }

  /** fault: undefined: it could not be determined. server: the one that has it, where known. */
  note(fault: unknown, server = nameServers(this.#servers)): void {
    if (fault === undefined) return
    const { word, what } = describeFault(fault)
    this.word = word
    if (what !== undefined) {
      const text = `store.redis: ${server}: ${word}: ${what}`
      this.#refusal = { word, text, atMs: performance.now() }
    } else if (!this.#isStale()) return
    if (this.#isWhole === false && word !== this.#cause) this.become(false)
  }

  /** isWhole: every server is usable. */
  become(isWhole: boolean): void {
    this.#isWhole = isWhole
    if (this.#isStale()) this.#refusal = undefined
    this.#cause = this.#refusal?.word ?? this.word
    this.#onState(isWhole, this.#cause, this.refusal)
    if (!isWhole) return
    this.word = 'connection lost'
    this.#refusal = undefined
  }

  /** listener: called each time some server becomes usable. */
  onRecovered(listener: () => void): void {
    this.#recovered.push(listener)
  }

  recover(): void {
    for (const listener of this.#recovered) listener()
  }

  #isStale(): boolean {
    return this.#refusal !== undefined && performance.now() - this.#refusal.atMs > STANDS_MS
  }
}
