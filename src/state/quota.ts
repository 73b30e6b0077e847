/** The words that a lessee (a gateway process) and the authority (Redis, or this process) speak: one atomic call, `take`. */
import type { Limits } from '../config/config.ts'

/** Where a client stands in one window, as the headers tell it. */
export interface WindowView {
  readonly limit: number
  readonly remaining: number
  /** Unix time in seconds at which the window ends, on the store's clock. */
  readonly resetAtSeconds: number
  /** Whole seconds until then, rounded up, at least 1. */
  readonly resetAfterSeconds: number
}

export interface QuotaView {
  readonly minute: WindowView
  readonly day: WindowView
}

/** What one process states that it holds of one window: absolute and cumulative within that window. */
export interface Statement {
  /** Which window: floor(store time / window length). A process that holds nothing may name any that has ended. */
  readonly index: number
  /** Tokens the process has spent in that window. */
  readonly used: number
  /** Tokens the process has been granted and keeps, spent ones included. */
  readonly held: number
  /** Tokens handed out to all processes in that window, as the latest answer had it; undefined: it was told nothing. */
  readonly taken?: number | undefined
  /** Tokens that it held until now, and returns with this call. */
  readonly returned?: number
  /** When the window was last reset, by the latest answer. */
  readonly resetMs?: number
  /** Requests admitted since the latest call that was answered was sent: no more than these can be of after a reset that it did not tell. */
  readonly fresh?: number
}

export interface TakeRequest {
  readonly client: string
  /** Unique per boot of a process. */
  readonly process: string
  /** Rises with every call of this process; a number already seen changes nothing. */
  readonly sequence: number
  /** From the caller's configuration, so that a changed limit acts at once. */
  readonly limits: Limits
  readonly minute: Statement
  readonly day: Statement
  /**
   * Sequence number of its latest call that was answered in the day it names; undefined: none was. An authority that does not know
   * that call has lost data: it is empty, or an old copy.
   */
  readonly heard?: number | undefined
  /** Number of its latest call before it met the client, again maybe: what it stated by then, and has forgotten, stays counted. */
  readonly since?: number | undefined
  /** Tokens that waiting requests will spend on arrival; 0 only states the hold, and so returns what is no longer in it. */
  readonly need: number
  /** Tokens wished in all, at least `need`. */
  readonly want: number
}

/**
 * granted: at least `need` was granted (or need was 0). short: less than `need`, the rest is refused.
 * stale: the sequence number is older than the last one seen; nothing changed.
 * lost: the authority has just lost data of the client, or met it; others may have used more than it knows, so ask again in about
 * 15 ms, when they have stated it.
 */
export type TakeStatus = 'granted' | 'short' | 'stale' | 'lost'

export interface WindowReply {
  readonly index: number
  /** What the caller holds after the call. */
  readonly held: number
  /** Tokens handed out to all processes in this window. */
  readonly taken: number
  /** Tokens reported or known to be spent by all processes. */
  readonly used: number
  /** When its use was last set back to 0, by the authority's clock; 0: never. */
  readonly resetMs: number
}

export interface TakeReply {
  readonly status: TakeStatus
  /** Store time in ms, rounded up: never early, so that a deadline computed from it is never late. */
  readonly nowMs: number
  readonly minute: WindowReply
  readonly day: WindowReply
  /** What all processes were told of the client because of this call. */
  readonly notice: Notice | undefined
}

/** What was taken of both windows when a notice went out, as the reply has it that went out with it: held is the hold of its caller. */
export type Totals = Readonly<
  Record<'minute' | 'day', Pick<WindowReply, 'index' | 'taken' | 'held'>>
>

/**
 * short: requests are refused for want of tokens that others may hold: all that no request waits for is to be returned, now and
 * whenever one is handed back. unknown: the same, and use is to be stated again, since the authority has lost what it knew of the
 * client, or never knew it. free: tokens are left: since somebody was refused, some were returned, so that refusals in memory are
 * to be forgotten; or another sixteenth of a window was taken while others hold tokens, so that what they say is left stays true.
 * reset: the client's use is set back to 0: as short and unknown, and free.
 */
export type Notice = 'short' | 'unknown' | 'free' | 'reset'
/** by: the process whose call caused the notice, where that may be the listener's own. totals: unknown after a reset. */
export type NoticeListener = (client: string, notice: Notice, by?: string, totals?: Totals) => void

/** A sign of life of one process; isLast: it is about to end. */
export interface Beat {
  readonly process: string
  readonly isLast: boolean
}

/** By process: what its latest beat was; the next one differs. Those of processes that are long gone may be among them. */
export type Beats = ReadonlyMap<string, number>

/** Owner of the counters. A thrown or rejected call means the store is away, never that quota is used up. */
export interface Authority {
  /** The embedded authority answers at once; a remote one answers with a promise. */
  take(request: TakeRequest): TakeReply | Promise<TakeReply>
  /** Takes the beat of one process and tells those of all. Absent where nobody else can ask. */
  beat?(beat: Beat): Promise<Beats>
  /** Calls the listener each time the authority can be reached again; it may have lost its data meanwhile. */
  onReturn?(listener: () => void): void
  /**
   * Calls the listener with every notice; they may be repeated. onFlow: called with false when notices may be missed from then on,
   * and with true when they come again. Until it is called they come.
   */
  onNotice?(listener: NoticeListener, onFlow?: (isFlowing: boolean) => void): void
  close(): Promise<void>
}

/**
 * A denial is a result, not an error.
 * view is undefined in a degraded mode, and where notices are missed: headers are true or absent.
 */
export type QuotaDecision =
  | {
      readonly kind: 'admitted'
      readonly view: QuotaView | undefined
      /** The store is away and the request was decided by store.onOutage. */
      readonly degraded: boolean
      /** The windows that were charged, for refund. */
      readonly minuteIndex: number
      readonly dayIndex: number
      readonly minuteResetMs: number
      readonly dayResetMs: number
    }
  | {
      readonly kind: 'refused'
      readonly view: QuotaView | undefined
      readonly degraded: boolean
      /** The exhausted window with the longest wait. */
      readonly window: 'minute' | 'day'
      readonly limit: number
      readonly retryAfterSeconds: number
    }
  /** The store is away, and store.onOutage is closed or this process has no share of the limit left, though others may. */
  | { readonly kind: 'unavailable' }

/** The charge of an admitted request. */
export type Admission = QuotaDecision & { readonly kind: 'admitted' }
