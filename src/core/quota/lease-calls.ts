/**
 * Calls the authority: a call states what a lease holds and asks for more, and its reply is applied to the lease. Each client
 * has at most one call in flight, shared by all requests that wait. A request that arrives during a call goes with the next, so
 * that it waits hardly longer than two calls may take. A call that fails affects only the requests that waited for it: outage.ts
 * decides them, and the next request asks again.
 */
import type { Limits } from '../../config/config.ts'
import { mapWindows, MINUTE_MS } from '../../config/time.ts'
import { StoreUnavailable } from '../../state/contract.ts'
import type { QuotaDecision, QuotaObserver } from './decision.ts'
import type { Authority, TakeReply, TakeRequest } from '../../state/quota.ts'
import type { Timers } from '../../state/timers.ts'
import { haveSameLimits, type Lease } from './lease.ts'
import type { Outage } from './outage.ts'

const ASK_AGAIN_AFTER_LOSS_MS = 16
const LOSSES_IN_A_ROW = 3
/** The other processes return tokens this soon after a notice `short`, where the network is in good order. */
const ASK_AGAIN_AFTER_RECLAIM_MS = 10
/** A slower call has made its requests wait long enough: those that it refuses do not wait for tokens of other processes. */
const SLOW_CALL_MS = 20
/** How much of the newest call's duration goes into the mean. */
const CALL_WEIGHT = 0.1

export interface LeaseCallsOptions {
  readonly authority: Authority
  /** Unique per boot of this process. */
  readonly processId: string
  /** nowMs: monotonic, in ms. epochMs: Unix time in ms, used only until the first reply of the authority. */
  readonly clock: { nowMs(): number; epochMs(): number }
  /** auto, the default: asks for tokens ahead of need. off: one call per request. */
  readonly lease?: 'auto' | 'off'
  readonly timers: Timers
  readonly outage: Outage
  readonly observe?: Partial<QuotaObserver> | undefined
  /** A call was answered and has ended. */
  onAnswered(lease: Lease): void
  /** The authority has lost its data: it may not know what any client used. */
  onLoss(): void
  /** The authority's clock went back by more than a small skew, so that minutes are counted anew; called once each time. */
  readonly onClockBack?: ((bySeconds: number) => void) | undefined
  /** The authority reported its Unix time `storeMs` at some moment of a call that took `tookMs` and has just ended. */
  readonly onTime?: ((storeMs: number, tookMs: number) => void) | undefined
}

interface Order {
  /** Requests that wait. */
  readonly need: number
  /** The call may also ask for tokens ahead of need. */
  readonly ahead?: boolean
  /** The limits of the waiting requests themselves, since a client's JWTs may name different plans. */
  readonly limits: Limits
  /** The tokens in hand are returned. */
  readonly returns?: boolean
}

interface SentCall {
  readonly request: TakeRequest
  readonly reply: TakeReply | Promise<TakeReply>
  readonly sentMs: number
}

export class LeaseCalls {
  /** No notice is missed after the reply to a call with a higher number; Infinity: they may be missed. Written by follow. */
  followedFrom = 0
  /** The leases in the states uncertain and restating, of all clients. Written by Lease. */
  readonly uncertain = new Set<Lease>()
  readonly #options: LeaseCallsOptions
  /** Rises over all clients, so that a client that was forgotten never repeats a number. */
  #sequence = 0
  /** Number of the latest call when the clock was last seen to have gone back; a lease last answered before then shows nothing new. */
  #clockBackAt = 0
  /** The authority's Unix time minus this process's clock, by the latest reply. */
  #storeAheadMs: number | undefined
  #callMs = 1

  constructor(options: LeaseCallsOptions) {
    this.#options = options
  }

  /** isFlowing: true: notices arrive from now on; false: they may be missed, so that what earlier replies said may be outdated. */
  follow(isFlowing: boolean): void {
    this.followedFrom = isFlowing ? this.#sequence : Infinity
  }

  /** Asks for one token, as the caller has found no answer in memory. */
  take(lease: Lease, limits: Limits): QuotaDecision | Promise<QuotaDecision> {
    if (lease.isCalling) return this.#queued(lease, limits)
    const sent = this.#send(lease, { need: 1, ahead: true, limits })
    if (sent?.reply instanceof Promise) return this.#queued(lease, limits, sent)
    const received = sent && this.#receive(lease, sent, sent.reply)
    if (received === undefined) return this.#decideAlone(lease, limits, true)
    const { tokens, receivedMs } = received
    const decision = tokens > 0 ? lease.spend(limits, receivedMs) : lease.decide(limits, receivedMs)
    this.#options.onAnswered(lease)
    return decision ?? this.#decideAlone(lease, limits, true)
  }

  /** Makes a call that no request waits for; none may be under way. Returns false where the authority is away. */
  call(lease: Lease, order: Pick<Order, 'ahead' | 'returns'>): boolean {
    const sent = this.#send(lease, { ...order, need: 0, limits: lease.limits })
    if (sent?.reply instanceof Promise) lease.inFlight = this.#follow(lease, sent)
    else if (sent && this.#receive(lease, sent, sent.reply)) this.#options.onAnswered(lease)
    return sent !== undefined
  }

  /** Returns undefined where the authority is away. */
  #send(lease: Lease, order: Order): SentCall | undefined {
    const { authority, processId, clock } = this.#options
    const { minute, day } = lease
    const { need, limits, returns = lease.isLowered(limits) } = order
    const sentMs = clock.nowMs()
    // Tokens of a minute that may end at any moment can no longer be spent. They are returned, so that they do not look like a
    // limit used up.
    if (sentMs >= minute.spendUntilMs) minute.returnUnspent()
    lease.since ??= this.#sequence
    const request: TakeRequest = {
      client: lease.client,
      process: processId,
      sequence: ++this.#sequence,
      since: lease.since,
      heard: day.taken === undefined ? undefined : lease.answered,
      limits,
      ...mapWindows(lease.byName, (window) => window.statement(returns, lease.fresh)),
      need,
      want: this.#want(lease, order, sentMs),
    }
    try {
      const reply = authority.take(request)
      if (returns) for (const window of lease.windows) window.returnUnspent()
      return { request, reply, sentMs }
    } catch {
      return undefined
    }
  }

  #want({ pace, minute }: Lease, { need, ahead = false, limits }: Order, nowMs: number): number {
    if (!ahead || this.#options.lease === 'off') return need
    pace.measure(nowMs)
    // A minute that has ended leaves the whole length of the next one.
    const minuteLeftMs = nowMs < minute.endsByMs ? minute.endsByMs - nowMs : MINUTE_MS
    return pace.leaseSize(limits, need, minuteLeftMs)
  }

  /**
   * Applies a reply; returns undefined where it decides nothing. tokens: number of waiting requests that it serves; 0 if
   * a window of the tokens may have ended on the way. isReclaimed: the rest is refused until tokens are returned,
   * and others have just been asked to return theirs. receivedMs: when the reply came; its refusal holds at that moment, however
   * close the end of the window.
   */
  #receive(lease: Lease, { request, sentMs, reply: awaited }: SentCall, reply: TakeReply) {
    const { clock, onLoss, onTime } = this.#options
    const receivedMs = clock.nowMs()
    if (reply.status === 'stale') return undefined
    this.#watchClock(lease, reply)
    lease.apply(reply, request, { sentMs, receivedMs })
    this.#storeAheadMs = reply.nowMs - receivedMs
    onTime?.(reply.nowMs, receivedMs - sentMs)
    lease.answered = request.sequence
    // A notice `unknown` shows that the authority did not know of its own earlier answer.
    const isForgotten = request.heard !== undefined && request.day.index === reply.day.index
    if (reply.notice === 'unknown' && isForgotten) onLoss()
    if (reply.status === 'lost') return undefined
    this.#callMs += CALL_WEIGHT * (receivedMs - sentMs - this.#callMs)
    const tokens = lease.settle(request, reply, this.#callMs)
    // The earliest moment at which the minute of the reply can end.
    const endsMs = sentMs + MINUTE_MS * (reply.minute.index + 1) - reply.nowMs
    const isLate = awaited instanceof Promise && receivedMs >= endsMs
    const isReclaimed =
      reply.status === 'short' &&
      !isLate &&
      lease.rememberRefusal(reply, request.limits, receivedMs)
    return { tokens: isLate ? 0 : tokens, isReclaimed, receivedMs }
  }

  #watchClock({ minute, answered = 0 }: Lease, reply: TakeReply): void {
    const minutes = minute.taken === undefined ? 0 : minute.index - reply.minute.index
    if (minutes <= 1) return
    if (answered > this.#clockBackAt) this.#options.onClockBack?.(minutes * 60)
    this.#clockBackAt = this.#sequence
  }

  /** Separate from take, where most calls to an authority in this process must not pay for the closure. */
  #queued(lease: Lease, limits: Limits, sent?: SentCall): Promise<QuotaDecision> {
    return new Promise((resolve) => {
      lease.waiting.push({ limits, resolve })
      if (sent !== undefined) lease.inFlight = this.#follow(lease, sent)
    })
  }

  /** Waits for the reply of a call, and begins the next call if requests wait for one. losses: of the replies before, in a row. */
  async #follow(lease: Lease, sent: SentCall, losses = 0): Promise<void> {
    const { clock, observe, timers } = this.#options
    let pauseMs: number | undefined
    let outcome: 'ok' | 'timeout' | 'error' = 'ok'
    let isLost = false
    try {
      const reply = await sent.reply
      isLost = reply.status === 'lost'
      pauseMs = this.#serveReply(lease, sent, reply)
      if (isLost && losses + 1 < LOSSES_IN_A_ROW) pauseMs = ASK_AGAIN_AFTER_LOSS_MS
    } catch (fault) {
      outcome = fault instanceof StoreUnavailable ? fault.reason : 'error'
    }
    observe?.storeCall?.(outcome, (clock.nowMs() - sent.sentMs) / 1000)
    if (pauseMs) await timers.after(pauseMs)
    lease.inFlight = undefined
    // Requests that came during a failed call do not wait for a second time-out.
    if (pauseMs === undefined) return this.#lose(lease, false)
    this.#callAgain(lease, isLost ? losses + 1 : 0)
    if (!lease.isCalling) this.#options.onAnswered(lease)
  }

  /** Returns how long to wait before the next call for the requests still undecided; undefined: the reply is of no use. */
  #serveReply(lease: Lease, sent: SentCall, reply: TakeReply): number | undefined {
    const received = this.#receive(lease, sent, reply)
    if (received === undefined) return undefined
    const { tokens, isReclaimed, receivedMs } = received
    const waits = isReclaimed && this.#options.clock.nowMs() - sent.sentMs <= SLOW_CALL_MS
    // Requests that arrive while the others return their tokens wait for them, too.
    if (waits) lease.forgetRefusals()
    lease.serve(tokens, sent.request.limits, receivedMs)
    return waits && lease.waiting.length > 0 ? ASK_AGAIN_AFTER_RECLAIM_MS : 0
  }

  /** Decides what memory can decide, and makes a call for the rest: first for those with the limits of the first. */
  #callAgain(lease: Lease, losses: number): void {
    lease.serve(0, lease.limits, this.#options.clock.nowMs())
    const [first] = lease.waiting
    if (first === undefined) return
    const { limits } = first
    const need = lease.waiting.filter((other) => haveSameLimits(other.limits, limits)).length
    const sent = this.#send(lease, { need, ahead: true, limits })
    if (sent === undefined) return this.#lose(lease, true)
    lease.inFlight = this.#follow(lease, sent, losses)
  }

  #lose(lease: Lease, isAway: boolean): void {
    lease.doubt()
    for (const { limits, resolve } of lease.waiting.splice(0))
      resolve(this.#decideAlone(lease, limits, isAway))
  }

  /** isAway: the authority is away; false: it was late, or answered with an error. */
  #decideAlone(lease: Lease, limits: Limits, isAway: boolean): QuotaDecision {
    const { clock, outage } = this.#options
    const nowMs = clock.nowMs()
    // The authority's Unix time by its latest reply, or else this machine's.
    const storeNowMs =
      this.#storeAheadMs === undefined ? clock.epochMs() : nowMs + this.#storeAheadMs
    lease.doubt()
    return outage.decide(lease, limits, { nowMs, storeNowMs, isAway })
  }
}
