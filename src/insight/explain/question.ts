/** The request to explain, and what is known about the moment: plain data from any source. */
import type { BackendHealth } from '../../core/backends/backend.ts'
import type { PerWindow } from '../../config/time.ts'
import type { BanRecord } from '../../state/bans.ts'
import type { Caller } from '../../core/rules/credentials.ts'
import type { Shed } from '../../core/rules/overload.ts'

/** A request to be explained; it need not have been sent. */
export interface Question {
  readonly method: string
  readonly target: string
  /** Names and values alternate. A missing Host is added, and Authorization for `keyId`. */
  readonly headers: readonly string[]
  /** Id of a configured key, whose secret is not needed. */
  readonly keyId?: string | undefined
  /** Unix time in ms at which the request comes. */
  readonly atMs: number
}

/** Everything is optional. Defaults: nobody is banned, nothing is shed, every backend is up. */
export interface Known {
  /** The request is over; it had its turn unless its record says otherwise. */
  readonly isOver?: boolean
  readonly shed?: Shed | undefined
  /** Requests without a valid credential in this minute, from the address of this machine. */
  readonly anonymousUsed?: number | undefined
  readonly backends?: readonly BackendHealth[]
  /** Returns what is known of the caller; called once the caller is authenticated. */
  ofCaller?(caller: Caller): CallerKnown | Promise<CallerKnown>
}

export interface CallerKnown {
  /** Use of all windows before this request; undefined: not looked up, 0 is assumed. isAssumed: the values are hypothetical. */
  readonly use?: PerWindow<number> & { readonly isAssumed?: boolean }
  /** The use is not known because the store is away. */
  readonly isAway?: boolean
  /** The store's Unix time in ms. Default: that of the question. */
  readonly countedAtMs?: number | undefined
  /** Ban of the key; one that has ended has no effect. */
  readonly ban?: BanRecord | undefined
  /** One entry for each process that has reported; undefined: none has. */
  readonly standings?: readonly CallerStanding[]
}

export type CallerIds = Pick<Caller, 'clientId' | 'keyId'>

/** What one process alone knows of a caller. */
export interface CallerStanding {
  /** Number of the worker; undefined: there is only one process. */
  readonly worker?: number
  /** Requests of the client under way. */
  readonly taken: number
  /** Strikes toward a ban of the key, as far as this process knows. */
  readonly strikes: number
}
