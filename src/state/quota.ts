/** The protocol between a lessee (a gateway process) and the authority (Redis, a supervisor, or this process): one atomic call, `take`. */
import type { Limits } from '../config/config.ts'
import type { PerWindow } from '../config/time.ts'

/** One process's statement about one window: absolute and cumulative within that window. */
export interface Statement {
  /** The window: floor(store time / window length). A process that holds nothing may name any that has ended. */
  readonly index: number
  /** Tokens that the process has spent in that window. */
  readonly used: number
  /** Tokens that the process was granted and keeps, including spent ones. */
  readonly held: number
  /** Tokens handed out to all processes in that window, as far as this one knows; undefined: it had no answer there. */
  readonly taken?: number | undefined
  /** Tokens that the process held until now and returns with this call; `taken` still counts them. */
  readonly returned?: number
  /** When the window was last reset, by the latest answer. */
  readonly resetMs?: number
  /** Requests admitted since the latest answered call was sent: only these can have come after a reset not known to the process. */
  readonly fresh?: number
}

export interface TakeRequest extends PerWindow<Statement> {
  readonly client: string
  /** Unique per boot of a process. */
  readonly process: string
  /** Rises with every call of this process; a call with a number already seen changes nothing. */
  readonly sequence: number
  /** The limits in the caller's configuration, so that a changed limit acts at once. */
  readonly limits: Limits
  /** Number of the caller's latest call answered in the day it names; undefined: none was. An authority that does not know it has lost data. */
  readonly heard?: number | undefined
  /** Number of the caller's latest call before it met the client, perhaps again: what it had stated, and has forgotten, stays counted. */
  readonly since?: number | undefined
  /** Tokens that waiting requests will spend on arrival; 0: none waits. Every call returns the tokens that it no longer states as held. */
  readonly need: number
  /** Tokens wanted in all, at least `need`. */
  readonly want: number
}

/**
 * granted: at least `need` was granted (or need was 0).
 * short: less than `need` was granted; the rest is refused.
 * stale: a later call was seen, or this one is repeated after a reset of the use; nothing changed.
 * lost: the authority lost data of the client, or never knew it: the caller asks again in 15 ms, when others have stated their use.
 */
export type TakeStatus = 'granted' | 'short' | 'stale' | 'lost'

export interface WindowReply {
  readonly index: number
  /** Tokens that the caller holds after the call. */
  readonly held: number
  /** Tokens handed out to all processes in this window. */
  readonly taken: number
  /** Tokens reported or known to be spent by all processes. */
  readonly used: number
  /** When the window's use was last set back to 0, by the authority's clock; 0: never on this day. */
  readonly resetMs: number
}

export interface TakeReply extends PerWindow<WindowReply> {
  readonly status: TakeStatus
  /** Store time in ms, rounded up: never early, so that a deadline computed from it is never late. */
  readonly nowMs: number
  /** The notice that this call has caused, sent to all processes. */
  readonly notice: Notice | undefined
}

/** Tokens taken in all windows when a notice was sent, as in the reply sent with it; held: of the caller that got this reply. */
export type Totals = PerWindow<Pick<WindowReply, 'index' | 'taken' | 'held'>>

/**
 * short: requests are refused for lack of tokens. Each process returns those that no request waits for, now and at each refund.
 * unknown: tokens are returned now and use is stated again, as the authority has lost what it knew of the client, or never knew it.
 * free: tokens are left. Some were returned since a refusal, so that refusals in memory have to be forgotten; or another
 * sixteenth of the minute's limit was taken while others hold tokens, so that the remainder they report stays true.
 * reset: the client's use is set back to 0: as unknown and free together.
 */
export type Notice = 'short' | 'unknown' | 'free' | 'reset'
/** by: the process whose call caused the notice, where that may be the listener's own. totals: undefined after a reset. */
export type NoticeListener = (client: string, notice: Notice, by?: string, totals?: Totals) => void

/** A sign of life of one process; isLast: the process is about to end. */
export interface Beat {
  readonly process: string
  readonly isLast: boolean
}

/** The latest beat of each process; a later one differs. Processes that are long gone may be included. */
export type Beats = ReadonlyMap<string, number>

/** The owner of the counters. A call throws while the store is away, and rejects if it is late or fails, never for lack of quota. */
export interface Authority {
  /** It is in this process, and answers at once unless it has to wait for its disk; another one answers with a promise. */
  readonly isEmbedded?: boolean
  take(request: TakeRequest): TakeReply | Promise<TakeReply>
  /** Takes the beat of one process and returns those of all. Absent where only one process can ask. */
  beat?(beat: Beat): Promise<Beats>
  /** Calls the listener each time the authority can be reached again; it may have lost its data meanwhile. */
  onReturn?(listener: () => void): void
  /**
   * Calls the listener with every notice; notices may be repeated. onFlow: called with false when notices may be missed from
   * then on, and with true when they arrive again. They arrive until it is first called.
   */
  onNotice?(listener: NoticeListener, onFlow?: (isFlowing: boolean) => void): void
}
