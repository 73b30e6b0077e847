/**
 * A lease is what this process holds and knows of one client: tokens of all windows that the authority has already
 * deducted, the refusals it has given, and the call to it. Its methods decide from this and change it; time is an argument.
 *
 * | state     | what it means                                               | what ends it                                   |
 * | --------- | ----------------------------------------------------------- | ---------------------------------------------- |
 * | settled   | the authority knows the use, or will with the next call     | a call begins: asking; doubt(): uncertain      |
 * | asking    | a call is under way; requests and notices wait for its end  | its end: settled; doubt(): restating           |
 * | uncertain | the authority may believe something else: a call is due     | a call begins: restating; settle(): settled    |
 * | restating | both: the call under way states the use                     | settle(): asking; its end: uncertain           |
 *
 * No field holds the state: `inFlight` says whether a call is under way, `calls.uncertain` what the authority may believe.
 * A lease in any state may be wanted: some process refuses requests, so that tokens refunded here are returned without a wait
 * for idleness. That begins with a notice or reply `short`, and ends with a notice `free` or `reset` or a reply with tokens.
 */
import type { Limits } from '../../config/config.ts'
import type { LeaseCalls } from './lease-calls.ts'
import { Pace } from './lease-size.ts'
import { LeaseWindow } from './lease-window.ts'
import { statedOf } from '../../state/memory/transition.ts'
import type { QuotaDecision, QuotaView } from './decision.ts'
import type { Notice, TakeReply, TakeRequest } from '../../state/quota.ts'
import { limitKeys, mapWindows, perWindow, windowNames, type PerWindow } from '../../config/time.ts'

/** How long a refusal that others may undo is remembered in case their notice is lost; each later one RETRY_FACTOR times as long. */
const RETRY_FIRST_MS = 25
const RETRY_FACTOR = 4
const RETRY_AT_MOST_MS = 10_000
/** A reply up to this old counts as current. So a flood of requests that are not charged asks the authority ten times a second at most. */
const SAID_FOR_MS = 100

export interface Waiter {
  readonly limits: Limits
  resolve(decision: QuotaDecision): void
}

/** Whether two requests have the same limits, as a client's JWTs may name different plans. */
export const haveSameLimits = (one: Limits, other: Limits): boolean =>
  limitKeys.every((key) => one[key] === other[key])

export class Lease {
  readonly client: string
  readonly byName: PerWindow<LeaseWindow> = perWindow((window) => new LeaseWindow(window))
  readonly minute = this.byName.minute
  readonly day = this.byName.day
  /** All of them, from the shortest. */
  readonly windows: readonly LeaseWindow[] = windowNames.map((name) => this.byName[name])
  /** The latest request or peek. Written by lessee.ts. */
  lastUsedMs: number
  /** The limits of the latest request or peek. Written by lessee.ts. */
  limits: Limits
  readonly pace: Pace
  /** The next call is made once so many tokens or fewer are in hand; undefined: once a token is needed. Written here. */
  prefetchAt: number | undefined
  /** Number of this process's latest call before the first for this lease. Written by lease-calls.ts. */
  since: number | undefined
  /** Number of the latest call that was answered. Written by lease-calls.ts. */
  answered: number | undefined
  /** Requests admitted since the call `answered` was sent. Written here. */
  fresh = 0
  /** Requests that wait for a decision, in order of arrival; as many of the tokens left are kept for them. */
  waiting: Waiter[] = []
  /** The call under way or about to be repeated; never rejects. Written by lease-calls.ts. */
  inFlight: Promise<void> | undefined
  /** Notices that arrived during the call, each once, the latest last: the reply under way may be older. Written by lessee.ts. */
  deferred: readonly Notice[] = []
  /** Some process refuses requests of the client for lack of tokens. Written here and by lessee.ts. */
  isWanted = false
  readonly #calls: Pick<LeaseCalls, 'followedFrom' | 'uncertain'>
  /** The day's use that the authority knows. */
  #dayUsedKnown = 0
  #answeredMs = -Infinity
  /** The authority counts this process as holding tokens. */
  #isHolder = false
  /** How long the next indefinite refusal is remembered. */
  #retryMs = RETRY_FIRST_MS
  /** Unspent tokens at the latest refusal, when their holders were asked to return them: only a higher number is worth another wait. */
  #stranded = 0

  constructor(client: string, limits: Limits, nowMs: number, calls: LeaseCalls) {
    this.client = client
    this.#calls = calls
    this.lastUsedMs = nowMs
    this.limits = limits
    this.pace = new Pace(nowMs)
  }

  get isCalling(): boolean {
    return this.inFlight !== undefined
  }

  get isUncertain(): boolean {
    return this.#calls.uncertain.has(this)
  }

  /** Marks the lease as uncertain: the authority may have lost what was stated; or a call was not sent, or may still be carried out. */
  doubt(): void {
    this.#calls.uncertain.add(this)
  }

  /** Decides without a call where the answer is known: a token in hand, or a refusal that still holds. */
  decide(limits: Limits, nowMs: number): QuotaDecision | undefined {
    if (this.#canSpend(limits, nowMs)) return this.spend(limits, nowMs, false, this.#isTrue(limits))
    if (this.isOutdated()) return undefined
    const waiting = this.waiting.length
    let used: LeaseWindow | undefined
    // The longest counts, as a client that waits for a shorter one would be refused again.
    for (const window of this.windows)
      if (window.isRefused(window.limitOf(limits), nowMs, waiting)) used = window
    return used && this.refuse(used, limits, nowMs)
  }

  // A loop, like the others for each request: a closure would be made each time.
  #canSpend(limits: Limits, nowMs: number): boolean {
    for (const window of this.windows)
      if (!window.canSpend(window.limitOf(limits), nowMs)) return false
    return true
  }

  /** Gives tokens to requests that wait under these limits, in order of arrival; decides the others from memory, where it can. */
  serve(tokens: number, limits: Limits, nowMs: number): void {
    const { waiting } = this
    if (waiting.length === 0) return
    this.waiting = []
    let left = tokens
    const others: Waiter[] = []
    for (const waiter of waiting) {
      if (left === 0 || !haveSameLimits(waiter.limits, limits)) {
        others.push(waiter)
        continue
      }
      left -= 1
      waiter.resolve(this.spend(limits, nowMs))
    }
    // The others are decided last: before, `decide` would mistake a token meant for another waiting request for a free one.
    for (const waiter of others) {
      const decision = this.decide(waiter.limits, nowMs)
      if (decision === undefined) this.waiting.push(waiter)
      else waiter.resolve(decision)
    }
  }

  /**
   * Spends one token of each window, which the caller knows to be held. degraded: the outage mode admits the request, whether
   * they are held or not. isTrue: the client may be given the remainder, as the authority has just reported it or would report the same.
   */
  spend(limits: Limits, nowMs: number, degraded = false, isTrue = !degraded): QuotaDecision {
    for (const window of this.windows) window.used += 1
    this.fresh += 1
    return {
      kind: 'admitted',
      view: isTrue ? this.view(limits, nowMs) : undefined,
      degraded,
      charged: mapWindows(this.byName, ({ charged }) => charged),
    }
  }

  refuse(window: LeaseWindow, limits: Limits, nowMs: number, degraded = false): QuotaDecision {
    return {
      kind: 'refused',
      view: degraded ? undefined : this.view(limits, nowMs),
      degraded,
      window: window.kind.name,
      limit: window.limitOf(limits),
      retryAfterSeconds: window.secondsLeft(nowMs),
    }
  }

  view(limits: Limits, nowMs: number): QuotaView {
    const { length } = this.waiting
    return mapWindows(this.byName, (one) => one.view(one.limitOf(limits), nowMs, length))
  }

  /** Applies the authority's reply to all windows; it was true at a moment between sentMs and receivedMs. */
  apply(
    reply: TakeReply,
    { limits, minute }: TakeRequest,
    { sentMs, receivedMs }: { sentMs: number; receivedMs: number },
  ): void {
    const { fresh } = this
    for (const window of this.windows)
      window.apply(reply, { sentMs, receivedMs, fresh, limit: window.limitOf(limits) })
    this.fresh -= minute.fresh ?? 0
    this.#answeredMs = receivedMs
  }

  /** Notes that the authority knows all that was used, and when to call it next; returns the number of tokens for waiting requests. */
  settle({ need, minute, day }: TakeRequest, reply: TakeReply, callMs: number): number {
    this.#calls.uncertain.delete(this)
    const granted = reply.minute.held - statedOf(minute, reply.minute).held
    const tokens = Math.min(need, granted)
    if (granted > 0) {
      this.#retryMs = RETRY_FIRST_MS
      this.#stranded = 0
    }
    this.#dayUsedKnown = statedOf(day, reply.day).used + tokens
    this.#isHolder = reply.day.held > this.#dayUsedKnown
    // A client that was granted nothing ahead of need gains nothing by a call before the next token is needed.
    const inHand = Math.min(...this.windows.map((window) => window.inHand))
    this.prefetchAt = granted > need ? this.pace.prefetchLevel(inHand, callMs) : undefined
    const isShort = reply.status === 'short'
    if (isShort || tokens > 0 || reply.notice === 'free') this.isWanted = isShort
    return tokens
  }

  /**
   * Remembers the refusal of a reply that granted less than was needed; a notice may end it. A definite one (every token is
   * spent) lasts until the window may end, as only the authority knows whether it has; until the minute ends at most, so that
   * an authority whose counters were reset is asked again; and at least until nowMs, for requests that waited. Returns true
   * where others hold tokens that they have just been asked to return.
   */
  rememberRefusal(reply: TakeReply, limits: Limits, nowMs: number): boolean {
    let unspent = 0
    for (const window of this.windows) {
      const { taken, used } = reply[window.kind.name]
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

  /** Tokens were returned, so that the authority has to be asked again. */
  forgetRefusals(): void {
    for (const window of this.windows) window.refuseUntil(-Infinity, 0)
  }

  /** Whether there are tokens to return, or spent or refunded ones that the authority does not know of yet. */
  isHolding(): boolean {
    const isUnstated = this.day.used !== this.#dayUsedKnown
    return isUnstated || this.windows.some(({ inHand, refunded }) => inHand + refunded > 0)
  }

  /** Whether the authority has answered in a day that still runs. */
  knowsDay(nowMs: number): boolean {
    return this.day.taken !== undefined && nowMs < this.day.endsByMs
  }

  /** Whether all windows run, and the authority's figures are true or were a moment ago. */
  isCurrent(limits: Limits, nowMs: number): boolean {
    const isSaid = this.windows.every((one) => one.taken !== undefined && nowMs < one.spendUntilMs)
    return isSaid && (nowMs - this.#answeredMs < SAID_FOR_MS || this.#isTrue(limits))
  }

  /** Whether the next call is due, as few tokens are left. */
  isRunningOut(): boolean {
    const { minute, prefetchAt } = this
    return prefetchAt !== undefined && minute.inHand <= prefetchAt
  }

  /** Whether notices were missed since the latest reply and arrive again, so that the authority has to be asked once more. */
  isOutdated(): boolean {
    const { answered = 0 } = this
    const { followedFrom } = this.#calls
    return answered <= followedFrom && followedFrom !== Infinity
  }

  /**
   * Whether the remainder known to this process exceeds the true one by no more than a sixteenth of the limit. The authority
   * sends a notice whenever others have taken as much while this process is a holder; and with nothing left, others can take
   * nothing.
   */
  #isTrue(limits: Limits): boolean {
    const { answered = 0, waiting } = this
    if (this.#isHolder && answered > this.#calls.followedFrom && !this.isLowered(limits))
      return true
    return this.windows.some((one) => one.remaining(one.limitOf(limits), waiting.length) === 0)
  }

  /** Whether tokens in hand were granted under higher limits: only the authority knows how many of them are left under these. */
  isLowered(limits: Limits): boolean {
    for (const window of this.windows) if (window.limitOf(limits) < window.grantedLimit) return true
    return false
  }
}
