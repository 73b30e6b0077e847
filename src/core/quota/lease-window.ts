/** One window of a lease. Only its methods write its fields; time is an argument, in ms of this process's monotonic clock. */
import type { Limits } from '../../config/config.ts'
import type { FixedWindow, WindowName } from '../../config/time.ts'
import type { ChargedWindow, WindowView } from './decision.ts'
import type { Statement, TakeReply, Totals } from '../../state/quota.ts'

/** Spending stops this long before the window can end, as timers and clocks are not exact. */
const SPEND_GUARD_MS = 5
/** The authority's time is rounded up by less than this. */
const ROUNDING_MS = 1

export class LeaseWindow {
  readonly kind: FixedWindow
  /**
   * index: floor(store time / length); a new lease begins in window 0, which ended in 1970. resetMs: when, by its own clock,
   * the authority last set the use back to 0, as far as this process knows; 0: never.
   */
  charged: ChargedWindow = { index: 0, resetMs: 0 }
  /** Tokens spent by this process. */
  used = 0
  /** Tokens granted to this process and kept, including spent ones. */
  held = 0
  /** Tokens handed out to all processes, including this one, by the authority's latest reply; undefined: there was none in this window. */
  taken: number | undefined
  /** The limit of the latest reply: tokens in hand were granted under it or a lower one. */
  grantedLimit = 0
  /** Tokens may be spent until this moment: SPEND_GUARD_MS before the window can end, or, without the authority, its likely end. */
  spendUntilMs = -Infinity
  /** The latest moment at which the window can end. */
  endsByMs = -Infinity
  /** Requests under refusedLimit or a lower limit are refused from memory until this moment. */
  refusedUntilMs = -Infinity
  refusedLimit = 0
  /** Tokens to be returned with the next statement, as their requests were refunded since the latest. */
  refunded = 0
  /** The highest counts of tokens taken, in all and by other processes, in notices since the latest statement. */
  #noted: { readonly index: number; taken: number; ofOthers: number } | undefined

  constructor(kind: FixedWindow) {
    this.kind = kind
  }

  get index(): number {
    return this.charged.index
  }

  limitOf(limits: Limits): number {
    const { limit } = this.kind
    // As in ofWindow.
    return limit === 'perMinute' ? limits.perMinute : limits[limit]
  }

  /** Tokens that this process may spend without asking. */
  get inHand(): number {
    return Math.max(0, this.held - this.used)
  }

  /** Tokens that the client may still spend: those granted to nobody and those in hand, less those that waiting requests will get. */
  remaining(limit: number, awaited: number): number {
    return Math.max(0, limit - (this.taken ?? 0) + this.inHand - awaited)
  }

  /** Whole seconds after which the window has certainly ended, so that a client that waits as long is not refused by it again. */
  secondsLeft(nowMs: number): number {
    return Math.max(1, Math.ceil((this.endsByMs - nowMs) / 1000))
  }

  /** The standing in a running window; one without a reply of the authority looks unused. */
  view(limit: number, nowMs: number, awaited: number): WindowView {
    return {
      limit,
      remaining: this.remaining(limit, awaited),
      resetAtSeconds: ((this.index + 1) * this.kind.lengthMs) / 1000,
      resetAfterSeconds: this.secondsLeft(nowMs),
    }
  }

  canSpend(limit: number, nowMs: number): boolean {
    const isInHand = this.held > this.used && nowMs < this.spendUntilMs
    // A lowered limit acts at once: other processes may have used it up since tokens were granted under the old one.
    return isInHand && limit >= this.grantedLimit && this.remaining(limit, 0) > 0
  }

  /** Whether the refusal in memory still holds: tokens left beyond those that waiting requests will get end it early. */
  isRefused(limit: number, nowMs: number, awaited: number): boolean {
    const isRemembered = nowMs <= this.refusedUntilMs && limit <= this.refusedLimit
    return isRemembered && this.remaining(limit, awaited) === 0
  }

  /** Makes the statement, and counts refunds and notices anew. What was spent in an outage is stated as held, as it is true use. */
  statement(returns: boolean, fresh: number): Statement {
    this.refunded = 0
    this.#noted = undefined
    const { used, held, taken } = this
    const { index, resetMs } = this.charged
    const stated = returns ? used : Math.max(used, held)
    const returned = Math.max(0, held - stated)
    return { index, resetMs, used, held: stated, taken, returned, fresh }
  }

  /** Refunds one charge. The token is not spent here again, as the authority may have reset the window just now. */
  refund({ index, resetMs }: ChargedWindow): void {
    const { charged } = this
    if (charged.index !== index || charged.resetMs !== resetMs || this.used === 0) return
    this.used -= 1
    if (this.held <= this.used) return
    this.refunded += 1
    this.#giveBack(1)
  }

  /** Removes the unspent tokens, which are returned to the authority. */
  returnUnspent(): void {
    this.#giveBack(this.inHand)
  }

  #giveBack(tokens: number): void {
    this.held -= tokens
    if (this.taken !== undefined) this.taken -= tokens
  }

  /** Applies the authority's reply, which was true at a moment between sentMs and receivedMs; fresh: see Lease. */
  apply(
    reply: TakeReply,
    at: { limit: number; fresh: number; sentMs: number; receivedMs: number },
  ): void {
    const { index, held, taken, resetMs } = reply[this.kind.name]
    const leftMs = (index + 1) * this.kind.lengthMs - reply.nowMs
    const known = this.charged
    if (index !== known.index) this.#open(index)
    else if (resetMs > known.resetMs) {
      this.used = at.fresh
      this.refunded = 0
    }
    // An authority that has lost its data knows of no reset.
    if (resetMs > known.resetMs) this.charged = { index, resetMs }
    this.held = held
    this.taken = taken
    this.#giveBack(this.refunded)
    this.grantedLimit = at.limit
    this.spendUntilMs = at.sentMs + leftMs - SPEND_GUARD_MS
    // More than a whole window is left only where the authority's clock went back, as it keeps the later window.
    const atMostMs = leftMs > this.kind.lengthMs ? Infinity : this.kind.lengthMs
    this.endsByMs = at.receivedMs + Math.min(leftMs + ROUNDING_MS, atMostMs)
    const refusedUntilMs = this.taken < at.limit ? -Infinity : this.spendUntilMs
    this.refusedUntilMs = Math.min(this.refusedUntilMs, refusedUntilMs)
    this.#heed()
  }

  /** Applies the totals of a notice. isOwn: a call of this process caused it, so that `held` may be out of date by now. */
  note({ index, taken, held }: Totals[WindowName], isOwn: boolean): void {
    if (this.#noted === undefined || this.#noted.index < index)
      this.#noted = { index, taken: 0, ofOthers: 0 }
    const noted = this.#noted
    if (noted.index > index) return
    if (isOwn) noted.ofOthers = Math.max(noted.ofOthers, taken - held)
    else noted.taken = Math.max(noted.taken, taken)
    this.#heed()
  }

  /** Notices may be older than the latest reply, so that only a higher count matters. */
  #heed(): void {
    const { index, taken, ofOthers } = this.#noted ?? { index: -1, taken: 0, ofOthers: 0 }
    if (index === this.index && this.taken !== undefined)
      this.taken = Math.max(this.taken, taken - this.refunded, ofOthers + this.held)
  }

  refuseUntil(untilMs: number, limit: number): void {
    this.refusedUntilMs = untilMs
    this.refusedLimit = limit
  }

  /** Opens the present window without the authority, once the window before has certainly ended. */
  rollOver(nowMs: number, storeNowMs: number): void {
    if (nowMs < this.endsByMs) return
    const index = Math.max(this.index + 1, Math.floor(storeNowMs / this.kind.lengthMs))
    this.#open(index)
    this.endsByMs = nowMs + (index + 1) * this.kind.lengthMs - storeNowMs
    this.spendUntilMs = this.endsByMs
  }

  /** Starts a window in which this process has used nothing yet. */
  #open(index: number): void {
    this.charged = { index, resetMs: this.charged.resetMs }
    this.used = 0
    this.held = 0
    this.taken = undefined
    this.refunded = 0
    this.refusedUntilMs = -Infinity
  }
}
