/**
 * Decides when this process calls the authority, and who waits for the call: each client has at most one call in flight, shared
 * by all requests that wait. A request that arrives during a call goes with the next, so that it waits hardly longer than two
 * calls may take. A call that fails affects only the requests that waited for it: outage.ts decides them, and the next request
 * asks again.
 */
import type { Limits } from '../../config/config.ts'
import {
  AuthorityCalls,
  type AuthorityCallsOptions,
  type Order,
  type SentCall,
} from './authority-calls.ts'
import type { Client, Waiter } from './client.ts'
import type { Outage } from './outage.ts'
import type { QuotaDecision, TakeReply } from '../../state/quota.ts'
import type { Timers } from '../../state/timers.ts'

const ASK_AGAIN_AFTER_LOSS_MS = 16
const LOSSES_IN_A_ROW = 3
/** On a network in good order the other processes return tokens this soon after a reclaim. */
const ASK_AGAIN_AFTER_RECLAIM_MS = 10
/** Where a call took longer, the same request does not ask a second time. */
const SLOW_CALL_MS = 20

export interface LeaseCallsOptions extends AuthorityCallsOptions {
  readonly timers: Timers
  readonly outage: Outage
  /** A call was answered and has ended. */
  onAnswered(client: Client): void
}

/** Waiting requests that a reply did not decide, and how long to wait before the next call for them. */
interface Undecided {
  readonly waiters: readonly Waiter[]
  readonly pauseMs: number
}

export class LeaseCalls {
  readonly #options: LeaseCallsOptions
  readonly authority: AuthorityCalls

  constructor(options: LeaseCallsOptions) {
    this.#options = options
    this.authority = new AuthorityCalls(options)
  }

  /** Asks for one token, as the caller has found no answer in memory. */
  take(client: Client, limits: Limits): QuotaDecision | Promise<QuotaDecision> {
    if (client.isCalling) return new Promise((resolve) => client.queue({ limits, resolve }))
    const sent = this.authority.send(client, { need: 1, ahead: true, limits })
    if (sent?.reply instanceof Promise)
      return new Promise((resolve) =>
        client.begin(this.#follow(client, [{ limits, resolve }], sent)),
      )
    const decision = sent && this.#takeAtOnce(client, limits, sent)
    return decision ?? this.#decideAlone(client, limits, true)
  }

  /**
   * Makes a call that no request waits for: it states what was used, and asks for more or returns what is in hand. Returns
   * false where the authority is away. Must not be called while a call is under way.
   */
  call(client: Client, order: Pick<Order, 'ahead' | 'returns'>): boolean {
    const sent = this.authority.send(client, { ...order, need: 0, limits: client.lease.limits })
    if (sent?.reply instanceof Promise) client.begin(this.#follow(client, [], sent))
    else if (sent !== undefined) this.authority.receive(client, sent, sent.reply)
    return sent !== undefined
  }

  /** Asks an authority in this process for one token, and again if it has lost its data. Returns undefined where it has no answer. */
  #takeAtOnce(client: Client, limits: Limits, first: SentCall): QuotaDecision | undefined {
    let sent: SentCall | undefined = first
    for (let attempt = 0; attempt < LOSSES_IN_A_ROW && sent !== undefined; attempt++) {
      if (sent.reply instanceof Promise) return undefined
      const outcome = this.authority.receive(client, sent, sent.reply)
      if (outcome !== undefined) {
        const { tokens, receivedMs: nowMs } = outcome
        const { lease } = client
        const decision = tokens > 0 ? lease.spend(limits, nowMs) : lease.decide(limits, nowMs)
        if (decision !== undefined) return decision
      }
      sent = this.authority.send(client, { need: 1, ahead: false, limits })
    }
    return undefined
  }

  /** isAway: the authority is away; false: it was late, or answered with an error. */
  #decideAlone(client: Client, limits: Limits, isAway: boolean): QuotaDecision {
    const nowMs = this.#options.clock.nowMs()
    const storeNowMs = this.authority.storeNowMs()
    client.fail()
    return this.#options.outage.decide(client, limits, { nowMs, storeNowMs, isAway })
  }

  /** Waits for the reply of a call, and begins the next call if requests wait for one. */
  async #follow(client: Client, batch: readonly Waiter[], sent: SentCall): Promise<void> {
    let undecided: Undecided | undefined
    try {
      undecided = this.#serveReply(client, batch, { sent, reply: await sent.reply })
    } catch {
      // The adapter counts the reason; here it only means that there is no answer.
    }
    if (undecided?.pauseMs) await this.#options.timers.after(undecided.pauseMs)
    const queued = client.end()
    // Requests queued behind a failed call do not wait for a second time-out.
    if (undecided === undefined) return this.#lose(client, [...batch, ...queued], false)
    const waiting = [...undecided.waiters, ...queued]
    if (waiting.length > 0) this.#callAgain(client, waiting)
    if (!client.isCalling) this.#options.onAnswered(client)
  }

  /** Returns undefined where the reply is of no use. */
  #serveReply(
    client: Client,
    batch: readonly Waiter[],
    { sent, reply }: { sent: SentCall; reply: TakeReply },
  ): Undecided | undefined {
    const { clock } = this.#options
    const outcome = this.authority.receive(client, sent, reply)
    if (outcome === undefined) {
      const isAskedAgain = reply.status === 'lost' && client.lostInARow < LOSSES_IN_A_ROW
      return isAskedAgain ? { waiters: batch, pauseMs: ASK_AGAIN_AFTER_LOSS_MS } : undefined
    }
    const waits = outcome.isReclaimed && clock.nowMs() - sent.sentMs <= SLOW_CALL_MS
    // Requests that arrive while the others return their tokens wait for them, too.
    if (waits) client.lease.forgetRefusals()
    const waiters = this.#serve(client, batch, outcome.tokens, outcome.receivedMs)
    return { waiters, pauseMs: waits && waiters.length > 0 ? ASK_AGAIN_AFTER_RECLAIM_MS : 0 }
  }

  /** Gives tokens to the requests in order of arrival, then decides from memory; returns the requests still undecided. */
  #serve({ lease }: Client, batch: readonly Waiter[], tokens: number, nowMs: number): Waiter[] {
    let left = tokens
    lease.awaited = 0
    return batch.filter((waiter) => {
      const decision =
        left-- > 0 ? lease.spend(waiter.limits, nowMs) : lease.decide(waiter.limits, nowMs)
      if (decision === undefined) lease.awaited += 1
      else waiter.resolve(decision)
      return decision === undefined
    })
  }

  /** Decides what memory can decide, and makes a call for the rest: first for those with the limits of the first. */
  #callAgain(client: Client, waiting: readonly Waiter[]): void {
    const undecided = this.#serve(client, waiting, 0, this.#options.clock.nowMs())
    const [first] = undecided
    if (first === undefined) return
    const { limits } = first
    const isLike = (w: Waiter): boolean =>
      w.limits.perMinute === limits.perMinute && w.limits.perDay === limits.perDay
    const batch = undecided.filter(isLike)
    const sent = this.authority.send(client, { need: batch.length, ahead: true, limits })
    if (sent === undefined) return this.#lose(client, undecided, true)
    for (const waiter of undecided) if (!isLike(waiter)) client.queue(waiter)
    client.begin(this.#follow(client, batch, sent))
  }

  #lose(client: Client, waiters: readonly Waiter[], isAway: boolean): void {
    client.fail()
    for (const { limits, resolve } of waiters) resolve(this.#decideAlone(client, limits, isAway))
  }
}
