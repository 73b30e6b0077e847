/** What is to be explained, and what is known of the moment: plain data, so that whoever asks may have it from anywhere. */
import type { Backends } from '../api/state.ts'
import type { BanRecord } from '../../state/bans.ts'
import type { Caller } from '../../core/rules/credentials.ts'
import type { Shed } from '../../core/rules/overload.ts'

/** A request that is thought of. */
export interface Question {
  readonly method: string
  readonly target: string
  /** Flat names and values. Host is put in where it is missing, and Authorization for `keyId`. */
  readonly headers: readonly string[]
  /** Of a configured key, which need not be at hand. */
  readonly keyId?: string | undefined
  /** Unix time in ms at which it comes. */
  readonly atMs: number
  /** Where it comes from. Default: this machine. */
  readonly address?: string | undefined
}

/** All may be left out: nobody is banned then, nothing is shed, every backend is up. */
export interface Known {
  /** The request was answered: it had its turn, unless that is told. */
  readonly isOver?: boolean
  readonly shed?: Shed | undefined
  /** Requests without a valid credential in this minute, from the same address. */
  readonly anonymousUsed?: number | undefined
  readonly backends?: readonly Pick<Backends['backends'][number], 'name' | 'state' | 'cause'>[]
  /** What is known of the caller, who is asked for once he is known. */
  ofCaller?(caller: Caller): CallerKnown | Promise<CallerKnown>
}

export interface CallerKnown {
  /** Of both windows, before this request. Left out: nobody was asked, 0 is assumed. isAssumed: somebody made it up. */
  readonly use?: { readonly minute: number; readonly day: number; readonly isAssumed?: boolean }
  /** Nobody could be asked: the store is away. */
  readonly isAway?: boolean
  /** The store's Unix time in ms. Default: that of the question. */
  readonly countedAtMs?: number | undefined
  /** Of the key; ended ones do no harm. */
  readonly ban?: BanRecord | undefined
  /** With each process that has told it; undefined: with none. */
  readonly standings?: readonly Standing[]
}

export type CallerIds = Pick<Caller, 'clientId' | 'keyId'>

/** What one process alone knows of a caller. */
export interface Standing {
  /** Left out: there are no others. */
  readonly worker?: number
  /** Turns of the client that are taken. */
  readonly taken: number
  /** Toward a ban of the key, as far as it knows. */
  readonly strikes: number
}

/** FILE:LINE of what a configuration says; null: it is not written there. */
export interface SettingPlaces {
  of(...path: readonly (string | number)[]): string | null
  ofKey(clientId: string, keyId: string): string | null
  /** Of the client's own. */
  ofLimits(clientId: string): string | null
}
