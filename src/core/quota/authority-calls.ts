/**
 * One `take` call to the authority for one client: `send` states what is held and asks for more, `receive` applies the reply to
 * the lease. lease-calls.ts decides when a call is made and who waits for it.
 */
import type { Limits } from '../../config/config.ts'
import type { Client } from './client.ts'
import { leaseSize, measurePace } from './lease-size.ts'
import type { Lease } from './lease.ts'
import type { Authority, TakeReply, TakeRequest } from '../../state/quota.ts'

export interface Order {
  /** Requests that wait. */
  readonly need: number
  /** The call may also ask for tokens ahead of need. */
  readonly ahead?: boolean
  /** The limits of the waiting requests themselves, since a token may name another plan than the one before. */
  readonly limits: Limits
  /** The tokens in hand are returned. */
  readonly returns?: boolean
}

export interface SentCall {
  readonly request: TakeRequest
  readonly reply: TakeReply | Promise<TakeReply>
  readonly sentMs: number
}

/** The result of a reply. */
export interface Outcome {
  /** Number of waiting requests that it serves; 0 if the minute or the day of the tokens may have ended on the way. */
  readonly tokens: number
  /** The rest is refused until tokens are returned, and others have just been asked to return theirs. */
  readonly isReclaimed: boolean
  /** When the reply came; its refusal holds at that moment, however close the end of the window. */
  readonly receivedMs: number
}

export interface AuthorityCallsOptions {
  readonly authority: Authority
  readonly processId: string
  readonly clock: { nowMs(): number; epochMs(): number }
  /** auto: asks for tokens ahead of need, unless the authority is in this process. */
  readonly lease: 'auto' | 'off'
  /** The authority has lost its data: it may not know what any client used. */
  onLoss(): void
  /** The authority's clock went back by more than a small skew, so that minutes are counted anew; called once each time. */
  readonly onClockBack?: ((bySeconds: number) => void) | undefined
  /** The authority reported its Unix time `storeMs` at some moment of a call that took `tookMs` and has just ended. */
  readonly onTime?: ((storeMs: number, tookMs: number) => void) | undefined
}

/** How much of the newest call's duration goes into the mean. */
const CALL_WEIGHT = 0.1

export class AuthorityCalls {
  /** The authority is in this process and answers at once, except where it has to wait for its disk. Written by send. */
  isImmediate = false
  /** No notice is missed after the reply to a call with a higher number. Written by follow. */
  readonly followed = { from: 0 }
  readonly #options: AuthorityCallsOptions
  /** Rises over all clients, so that a client that was forgotten never repeats a number. */
  #sequence = 0
  /** Number of the latest call when a clock was last seen to have gone back; replies to earlier calls show nothing new. */
  #clockBackAt = 0
  /** The authority's Unix time minus this process's clock, by the latest reply. */
  #storeAheadMs: number | undefined
  /** Mean duration of a call. */
  #callMs = 1

  constructor(options: AuthorityCallsOptions) {
    this.#options = options
  }

  /** isFlowing: true: notices arrive from now on; false: they may be missed, so that what earlier replies said may be outdated. */
  follow(isFlowing: boolean): void {
    this.followed.from = isFlowing ? this.#sequence : Infinity
  }

  /** The authority's Unix time by its latest reply, or else this machine's. */
  storeNowMs(): number {
    const { clock } = this.#options
    return this.#storeAheadMs === undefined ? clock.epochMs() : clock.nowMs() + this.#storeAheadMs
  }

  /** Returns undefined where the authority is away. */
  send({ lease }: Client, order: Order): SentCall | undefined {
    const { authority, processId, clock } = this.#options
    const { minute, day } = lease
    // Tokens granted under a higher limit are returned: only the authority knows how many of them are left under the lower one.
    const isLowered =
      order.limits.perMinute < minute.grantedLimit || order.limits.perDay < day.grantedLimit
    const { need, limits, returns = isLowered } = order
    const sentMs = clock.nowMs()
    // Tokens of a minute that may end at any moment can no longer be spent. They are returned, so that they do not look like a
    // limit used up.
    if (sentMs >= minute.spendUntilMs && minute.held > minute.used) minute.returnUnspent()
    lease.since ??= this.#sequence
    const request: TakeRequest = {
      client: lease.client,
      process: processId,
      sequence: ++this.#sequence,
      since: lease.since,
      heard: day.taken === undefined ? undefined : lease.answered,
      limits,
      minute: minute.statement(returns, lease.fresh),
      day: day.statement(returns, lease.fresh),
      need,
      want: this.#want(lease, order, sentMs),
    }
    try {
      const reply = authority.take(request)
      this.isImmediate ||= !(reply instanceof Promise)
      if (returns) lease.returnTokens()
      return { request, reply, sentMs }
    } catch {
      return undefined
    }
  }

  /** Returns undefined where the reply only allows to ask again. */
  receive(client: Client, sent: SentCall, reply: TakeReply): Outcome | undefined {
    const { clock, onLoss } = this.#options
    const { lease } = client
    const { request, sentMs } = sent
    const receivedMs = clock.nowMs()
    if (reply.status === 'stale') return undefined
    this.#watchClock(lease, reply)
    lease.apply(reply, request, { sentMs, receivedMs })
    this.#storeAheadMs = reply.nowMs - receivedMs
    this.#options.onTime?.(reply.nowMs, receivedMs - sentMs)
    lease.answered = request.sequence
    // The authority did not know of its earlier answer.
    const isForgotten = request.heard !== undefined && request.day.index === reply.day.index
    if (reply.notice === 'unknown' && isForgotten) onLoss()
    if (reply.status === 'lost') {
      client.lose()
      return undefined
    }
    client.trust()
    this.#callMs += CALL_WEIGHT * (receivedMs - sentMs - this.#callMs)
    const tokens = lease.credit(request, reply, this.#callMs)
    const late = sent.reply instanceof Promise && receivedMs >= mayEndAtMs(lease, sent, reply)
    const isShort = reply.status === 'short'
    const isReclaimed = isShort && !late && lease.rememberRefusal(reply, request.limits, receivedMs)
    if (isShort) client.applyNotice('short')
    else if (tokens > 0 || reply.notice === 'free') client.applyNotice('free')
    return { tokens: late ? 0 : tokens, isReclaimed, receivedMs }
  }

  #watchClock({ minute, answered = 0 }: Lease, reply: TakeReply): void {
    const minutes = minute.taken === undefined ? 0 : minute.index - reply.minute.index
    if (minutes <= 1) return
    if (answered > this.#clockBackAt) this.#options.onClockBack?.(minutes * 60)
    this.#clockBackAt = this.#sequence
  }

  #want({ pace, minute }: Lease, { need, ahead = false, limits }: Order, nowMs: number): number {
    if (!ahead || this.#options.lease === 'off' || this.isImmediate) return need
    measurePace(pace, nowMs)
    // After the end of a minute, the next one is about to begin.
    const minuteLeftMs = nowMs < minute.endsByMs ? minute.endsByMs - nowMs : minute.lengthMs
    return leaseSize(pace, { limits, need, minuteLeftMs })
  }
}

/** The earliest moment at which the minute of the reply can end, on this process's clock. */
function mayEndAtMs({ minute }: Lease, { sentMs }: SentCall, reply: TakeReply): number {
  return sentMs + minute.lengthMs * (reply.minute.index + 1) - reply.nowMs
}
