/**
 * What a gateway keeps beyond one request, whatever keeps it: memory, store.file (sqlite/), Redis, or the supervisor that several
 * workers share. Each home is a folder here that opens all of it; test/contract/ runs the same suites over the homes.
 */
import type { BanStore } from './bans.ts'
import type { CounterStore } from './counters.ts'
import type { EmbeddedAuthority } from './memory/authority.ts'
import type { Authority } from './quota.ts'
import type { StoreClock } from './store-clock.ts'
import type { UsageStore } from './usage.ts'

/** The state that a process needs to serve requests. */
export interface State {
  readonly authority: Authority
  /** The authority, where it counts in this very process. */
  readonly embedded?: EmbeddedAuthority | undefined
  readonly bans: BanStore
  /** The time that bans go by. */
  readonly clock: StoreClock
  /** Creates the counter of strikes; called once. */
  strikes(withinMs: number): Counter
  /** Resolves when the store can be asked, or after a limited wait for that; rejects with an Error where it refuses this gateway. */
  ready(): Promise<void>
  /** Closes the authority, and the connection that all parts share. Never rejects. */
  close(): Promise<void>
}

/** The state of a process that has no supervisor to ask, or is one. */
export interface OwnState extends State {
  readonly usage: UsageStore
  readonly counters: CounterStore
  readonly claims: Claims
  /** Says that a gateway lives, or without a note: that it is about to end. Returns the notes of all that live, by id; whoever may write to the store may write there, too. Rejects with an Error whose message is the fault in a word. undefined: nobody else shares the store. */
  readonly register?: (id: string, note?: string) => Promise<ReadonlyMap<string, string>>
  readonly health: StoreHealth
}

/** The members change as the store does. */
export interface StoreHealth {
  /** false: calls fail at once. */
  readonly available: boolean
  /** The latest fault in a word, while the store is away. */
  readonly cause: string | undefined
  /** Server, fault and remedy while the store refuses this gateway, which only an operator can mend; undefined if it does not. */
  readonly refusal: string | undefined
  /** Settings of the store that may lose counts; undefined: none is known. */
  readonly warning: string | undefined
}

/** An embedded store is always there. */
export const embeddedHealth: StoreHealth = {
  available: true,
  cause: undefined,
  refusal: undefined,
  warning: undefined,
}

/** Counters that could not be kept. */
export interface UnsavedCounters {
  readonly seconds: number
  /** A text for operators: which counters are at risk, and why. */
  readonly warning: string
}

export interface Count {
  readonly total: number
  /** Time since the oldest addition that is counted. */
  readonly forMs: number
}

/** One number per key: the sum of the additions within the latest `withinMs`, each of which may count a thousandth of it longer. */
export interface Counter {
  /**
   * Adds whole points and returns the count of the key; a promise where other processes add to the same numbers. Never rejects
   * because a total is high. nowMs: Unix time in ms, used only where this process counts by itself.
   */
  add(key: string, points: number, nowMs: number): Count | Promise<Count>
  /** Begins the count of the key anew. Rejects where other processes may still see the old one. */
  reset(key: string): void | Promise<void>
  /** Sets withinMs from now on. */
  useTime(withinMs: number): void
}

/** Decides which gateway of a store sends a notice that all could send: the first to claim it; if that ends too early, another. */
export interface Claims {
  /** others: another gateway is about to send it. Where the store does not answer it is sent twice rather than never. Never rejects. */
  take(name: string): Promise<'own' | 'others' | 'done'>
  /** The notice was sent; no other gateway sends it before untilMs (Unix time in ms). */
  done(name: string, untilMs: number): Promise<void>
}

/** The store is away or of no use; this never means that quota is used up. */
export class StoreUnavailable extends Error {
  override readonly name = 'StoreUnavailable'
  readonly reason: 'timeout' | 'error'

  constructor(reason: 'timeout' | 'error', cause?: unknown) {
    super('the store is unavailable', { cause })
    this.reason = reason
  }
}

/** The store did not confirm a change: it may have been made, may still be made, or never. */
export class MayBeDone extends Error {
  override readonly name = 'MayBeDone'

  constructor(cause: unknown) {
    super('the store has not said whether it is done', { cause })
  }
}

export const mayBeDone = (cause: unknown): never => {
  throw new MayBeDone(cause)
}
