/**
 * A lease is what this process holds and knows of one client: tokens of the minute and the day that the authority has already
 * deducted, and the refusals it has given. Its methods decide from it and change it; time is an argument.
 */
import type { Limits } from '../../config/config.ts'
import { createPace, prefetchLevel, type Pace } from './lease-size.ts'
import { LeaseWindow } from './lease-window.ts'
import { statedOf } from '../../state/memory/statements.ts'
import type {
  Admission,
  QuotaDecision,
  TakeReply,
  TakeRequest,
  Totals,
  QuotaView,
} from '../../state/quota.ts'
import { DAY_MS, MINUTE_MS } from '../../config/time.ts'

/**
 * A refusal that others may undo by returning tokens is remembered until they do, as a notice tells; in case that is lost, for so
 * long at first, and each later one RETRY_FACTOR times as long as the one before.
 */
const RETRY_FIRST_MS = 25
const RETRY_FACTOR = 4
const RETRY_AT_MOST_MS = 10_000
/** A reply may be as old when it comes. So a flood of requests that are free asks ten times a second at most what is left. */
const SAID_FOR_MS = 100

export class Lease {
  readonly client: string
  readonly minute = new LeaseWindow('minute', MINUTE_MS)
  readonly day = new LeaseWindow('day', DAY_MS)
  /** The latest request or peek. Written by lessee.ts. */
  lastUsedMs: number
  /** The limits of the latest request or peek. Written by lessee.ts. */
  limits: Limits
  /** See Pace for its writers. */
  readonly pace: Pace
  /** With so many tokens in hand or fewer the next call begins; undefined: not before one is needed. Written here. */
  prefetchAt: number | undefined
  /** Number of this process's latest call before the first for this lease. Written by authority-calls.ts. */
  since: number | undefined
  /** Number of the latest call that was answered. Written by authority-calls.ts. */
  heard: number | undefined
  /** Requests admitted since that call was sent. Written here. */
  fresh = 0
  /** Requests that wait for what was refunded since a refusal: so much of it is nobody else's. Written by lease-calls.ts. */
  awaited = 0
  /** See AuthorityCalls. */
  readonly #followed: { readonly from: number }
  /** The day's use as the authority has it. */
  #dayUsedKnown = 0
  /** When the latest reply came. */
  #answeredMs = -Infinity
  /** The authority's books say that this process has tokens in hand. */
  #isHolder = false
  /** How long the next indefinite refusal is remembered. */
  #retryMs = RETRY_FIRST_MS
  /** Unspent tokens of others for which they were asked already: those that stay are with processes that have died. */
  #stranded = 0

  constructor(
    client: string,
    { limits, nowMs, followed }: { limits: Limits; nowMs: number; followed: { from: number } },
  ) {
    this.client = client
    this.#followed = followed
    this.lastUsedMs = nowMs
    this.limits = limits
    this.pace = createPace(nowMs)
  }

  /** Decides without asking, if the answer is known: a token in hand, or a refusal that still holds. */
  decide(limits: Limits, nowMs: number): QuotaDecision | undefined {
    const { minute, day, awaited } = this
    if (minute.canSpend(limits.perMinute, nowMs) && day.canSpend(limits.perDay, nowMs))
      return this.spend(limits, nowMs, false, this.#isTrue(limits))
    if (this.isOutdated()) return undefined
    if (day.isRefused(limits.perDay, nowMs, awaited)) return this.refuse(day, limits, nowMs)
    if (minute.isRefused(limits.perMinute, nowMs, awaited))
      return this.refuse(minute, limits, nowMs)
    return undefined
  }

  /**
   * Spends one token of both windows, which the caller has made sure are held. degraded: without the authority. isTrue: what is left
   * may be said, as the authority has just said it, or would say it again.
   */
  spend(limits: Limits, nowMs: number, degraded = false, isTrue = !degraded): QuotaDecision {
    this.minute.spend()
    this.day.spend()
    this.fresh += 1
    return {
      kind: 'admitted',
      view: isTrue ? this.view(limits, nowMs) : undefined,
      degraded,
      minuteIndex: this.minute.index,
      dayIndex: this.day.index,
      minuteResetMs: this.minute.resetMs,
      dayResetMs: this.day.resetMs,
    }
  }

  refuse(window: LeaseWindow, limits: Limits, nowMs: number, degraded = false): QuotaDecision {
    return {
      kind: 'refused',
      view: degraded ? undefined : this.view(limits, nowMs),
      degraded,
      window: window.kind,
      limit: window.limitOf(limits),
      retryAfterSeconds: window.secondsLeft(nowMs),
    }
  }

  view(limits: Limits, nowMs: number): QuotaView {
    return {
      minute: this.minute.view(limits.perMinute, nowMs, this.awaited),
      day: this.day.view(limits.perDay, nowMs, this.awaited),
    }
  }

  /** Takes the charge of a request back, in those of its windows that still run. */
  refund({ minuteIndex, dayIndex, minuteResetMs, dayResetMs }: Admission): void {
    this.minute.refund(minuteIndex, minuteResetMs)
    this.day.refund(dayIndex, dayResetMs)
  }

  /** Takes in what the authority said of both windows. sentMs and receivedMs frame the moment at which it was true. */
  apply(
    reply: TakeReply,
    { limits, minute }: TakeRequest,
    at: { sentMs: number; receivedMs: number },
  ): void {
    for (const window of [this.minute, this.day])
      window.apply(reply, { ...at, fresh: this.fresh, limit: window.limitOf(limits) })
    this.fresh -= minute.fresh ?? 0
    this.#answeredMs = at.receivedMs
  }

  /** Takes in what a notice said of both windows. isOwn: a call of this process has caused it. */
  note({ minute, day }: Totals, isOwn: boolean): void {
    this.minute.note(minute, isOwn)
    this.day.note(day, isOwn)
  }

  /** Notes what the authority knows now, and when to call it next; the result is the tokens for requests that wait. */
  credit({ need, minute, day }: TakeRequest, reply: TakeReply, callMs: number): number {
    const granted =
      reply.minute.held - statedOf(minute, reply.minute.index, reply.minute.resetMs).held
    const tokens = Math.min(need, granted)
    if (granted > 0) {
      this.#retryMs = RETRY_FIRST_MS
      this.#stranded = 0
    }
    this.#dayUsedKnown = statedOf(day, reply.day.index, reply.day.resetMs).used + tokens
    this.#isHolder = reply.day.held > this.#dayUsedKnown
    // Nothing came ahead: asking for more before it is needed would be a call for nothing.
    const inHand = Math.min(this.minute.held - this.minute.used, this.day.held - this.day.used)
    this.prefetchAt = granted > need ? prefetchLevel(this.pace, inHand, callMs) : undefined
    return tokens
  }

  /**
   * Remembers the refusal of a reply that granted less than was needed; a notice may end it. A definite one (every token is spent)
   * lasts until the window may end, as only the authority knows whether it has; no longer than the minute, so that an authority
   * whose counters were reset is asked again; and at nowMs, for who waited. true: others hold tokens that they have just been asked for.
   */
  rememberRefusal(reply: TakeReply, limits: Limits, nowMs: number): boolean {
    let unspent = 0
    for (const window of [this.minute, this.day]) {
      const { taken, used } = reply[window.kind]
      const limit = window.limitOf(limits)
      if (taken < limit) continue
      unspent = Math.max(unspent, taken - used)
      const retryAtMs = used >= limit ? Infinity : nowMs + this.#retryMs
      const untilMs = Math.min(retryAtMs, window.spendUntilMs, this.minute.spendUntilMs)
      window.refuseUntil(Math.max(nowMs, untilMs), limit)
    }
    this.#retryMs = Math.min(RETRY_FACTOR * this.#retryMs, RETRY_AT_MOST_MS)
    const isReclaimed = unspent > this.#stranded
    this.#stranded = unspent
    return isReclaimed
  }

  /** Tokens were returned: the authority is to be asked again. */
  forgetRefusals(): void {
    for (const window of [this.minute, this.day]) window.refuseUntil(-Infinity, 0)
  }

  /** The unspent tokens go back. */
  returnTokens(): void {
    for (const window of [this.minute, this.day]) window.returnUnspent()
  }

  /** Whether tokens may go back, or the authority has not heard yet of everything that was spent or refunded. */
  isHolding(): boolean {
    const { minute, day } = this
    const isUnstated = minute.refunded + day.refunded > 0 || day.used !== this.#dayUsedKnown
    return minute.held > minute.used || day.held > day.used || isUnstated
  }

  /** Whether the authority has spoken in a day that still runs. */
  isTold(nowMs: number): boolean {
    return this.day.taken !== undefined && nowMs < this.day.endsByMs
  }

  /** Whether both windows run, and what the authority has said of them is true or was a moment ago. */
  isCurrent(limits: Limits, nowMs: number): boolean {
    const isSaid = ({ taken, spendUntilMs }: LeaseWindow): boolean =>
      taken !== undefined && nowMs < spendUntilMs
    const isTrue = nowMs - this.#answeredMs < SAID_FOR_MS || this.#isTrue(limits)
    return isSaid(this.minute) && isSaid(this.day) && isTrue
  }

  /** Whether so few tokens are left that the next call is due. */
  isRunningOut(): boolean {
    const { minute, prefetchAt } = this
    return prefetchAt !== undefined && minute.held - minute.used <= prefetchAt
  }

  /** Notices were missed since the latest reply, and come again: the authority has to say once more what is taken, or refused. */
  isOutdated(): boolean {
    const { heard = 0 } = this
    const { from } = this.#followed
    return heard <= from && from !== Infinity
  }

  /**
   * Whether what this process knows to be left exceeds the truth by no more than a sixteenth of the limit: the authority says it again
   * whenever others have taken so much while this process is a holder, or nothing is left that others could take.
   */
  #isTrue({ perMinute, perDay }: Limits): boolean {
    const { minute, day, heard = 0, awaited } = this
    const isLowered = perMinute < minute.grantedLimit || perDay < day.grantedLimit
    if (this.#isHolder && heard > this.#followed.from && !isLowered) return true
    return minute.remaining(perMinute, awaited) === 0 || day.remaining(perDay, awaited) === 0
  }
}
