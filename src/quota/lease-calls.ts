/**
 * The calls of this process to the authority: one in flight per client, shared by all who wait, and what happens when it
 * fails. Who arrives during a call goes with the next, so nobody waits longer than two calls may take.
 */
import type { Limits, OutageMode } from '../config/config.ts'
import {
  applyReply,
  decideFromMemory,
  letGo,
  quotaView,
  rememberRefusal,
  spend,
  statement,
} from './lease.ts'
import type { Client, Waiter } from './client.ts'
import type { QuotaObserver } from './observer.ts'
import { decideDuringOutage } from './outage-count.ts'
import type { Authority, Hold, QuotaDecision, QuotaView, TakeReply } from './protocol.ts'
import type { Timers } from './timers.ts'

interface Call {
  readonly need: number
  readonly limits: Limits
  readonly minute: Hold
  readonly sentMs: number
}

const ASK_AGAIN_AFTER_LOSS_MS = 15
const LOSSES_IN_A_ROW = 3

export interface LeaseCallsOptions {
  readonly authority: Authority
  readonly clock: { nowMs(): number; epochMs(): number }
  readonly timers: Timers
  readonly outage: OutageMode
  /** Bound of one call, kept by the authority. */
  readonly timeoutMs: number
  readonly observe: QuotaObserver | undefined
  /** The authority may not know what the client used: state it as soon as it listens. */
  onUncertain(client: Client): void
  /** The authority was told all about the client. */
  onCertain(client: Client): void
  /** The authority has lost its data: it may not know what any client used. */
  onLoss(): void
}

export interface LeaseCalls {
  /** The authority answers at once, without a promise. */
  readonly isImmediate: boolean
  /** Asks for one token; the caller has found no answer in memory. */
  take(client: Client, limits: Limits): QuotaDecision | Promise<QuotaDecision>
  look(client: Client, limits: Limits): QuotaView | undefined | Promise<QuotaView | undefined>
  /** Gives back what is in hand and states what was used; false if the authority is away. Not while a call is under way. */
  settle(client: Client): boolean
}

export function createLeaseCalls(options: LeaseCallsOptions): LeaseCalls {
  const { authority, clock, timers, outage, observe } = options
  // Numbers rise over all clients, so a client that was forgotten never repeats one.
  let sequence = 0
  let isImmediate = false
  let storeAheadMs: number | undefined

  /** undefined: the authority is away. */
  const ask = (
    { lease }: Client,
    need: number,
    // Of the very requests that wait, since a token may name another plan than the one before.
    limits: Limits,
  ): { call: Call; answer: TakeReply | Promise<TakeReply> } | undefined => {
    const minute = statement(lease.minute)
    const sentMs = clock.nowMs()
    try {
      const answer = authority.take({
        client: lease.client,
        process: lease.holder,
        sequence: ++sequence,
        limits,
        minute,
        day: statement(lease.day),
        need,
        want: need,
      })
      isImmediate = !(answer instanceof Promise)
      return { call: { need, limits, minute, sentMs }, answer }
    } catch {
      return undefined
    }
  }

  /** Takes an answer into the lease; answers how many waiters it serves, undefined if it serves to nothing but asking again. */
  const absorb = (client: Client, call: Call, reply: TakeReply): number | undefined => {
    const receivedMs = clock.nowMs()
    if (reply.status === 'stale') return undefined
    const { activeProcesses } = client.lease
    client.lease.limits = call.limits
    applyReply(client.lease, reply, { sentMs: call.sentMs, receivedMs })
    storeAheadMs = reply.nowMs - receivedMs
    if (reply.status === 'lost') {
      client.lostInARow += 1
      // An authority without data knows of nobody but the caller.
      client.lease.activeProcesses = activeProcesses
      options.onLoss()
      return undefined
    }
    client.lostInARow = 0
    options.onCertain(client)
    if (reply.status === 'short') rememberRefusal(client.lease, reply, receivedMs)
    const stated = call.minute.index === reply.minute.index ? call.minute.held : 0
    return Math.min(call.need, reply.minute.held - stated)
  }

  const withoutAuthority = (client: Client, limits: Limits): QuotaDecision => {
    const nowMs = clock.nowMs()
    const storeNowMs = storeAheadMs === undefined ? clock.epochMs() : nowMs + storeAheadMs
    observe?.degraded(outage)
    options.onUncertain(client)
    return decideDuringOutage(client.lease, limits, { mode: outage, times: { nowMs, storeNowMs } })
  }

  const lose = (client: Client, waiters: readonly Waiter[]): void => {
    for (const waiter of waiters) {
      if (waiter.kind === 'look') waiter.resolve(undefined)
      else waiter.resolve(withoutAuthority(client, waiter.limits))
    }
  }

  const follow = async (
    client: Client,
    batch: readonly Waiter[],
    { call, answer }: { call: Call; answer: TakeReply | Promise<TakeReply> },
  ): Promise<void> => {
    client.isCalling = true
    let served: number | undefined
    let isLost = false
    try {
      const reply = await answer
      served = absorb(client, call, reply)
      isLost = reply.status === 'lost' && client.lostInARow < LOSSES_IN_A_ROW
    } catch {
      // The reason is the adapter's to count; here it only means that nobody answered.
    }
    if (isLost) await timers.after(ASK_AGAIN_AFTER_LOSS_MS)
    client.isCalling = false
    const others = client.waiting
    client.waiting = []
    if (served === undefined && !isLost) {
      client.lostInARow = 0
      options.onUncertain(client)
      // Those who queued behind a call that failed do not wait for a second time-out.
      lose(client, [...batch, ...others])
      return
    }
    client.waiting = [...serve(client, batch, served ?? 0), ...others]
    pump(client)
  }

  /** Hands tokens out in order of arrival; returns those for whom the answer decided nothing. */
  const serve = (client: Client, batch: readonly Waiter[], tokens: number): Waiter[] => {
    const nowMs = clock.nowMs()
    let left = tokens
    return batch.filter((waiter) => {
      if (waiter.kind === 'look') {
        waiter.resolve(quotaView(client.lease, waiter.limits, nowMs))
        return false
      }
      const decision =
        left-- > 0
          ? spend(client.lease, waiter.limits, nowMs)
          : decideFromMemory(client.lease, waiter.limits, nowMs)
      if (decision !== undefined) waiter.resolve(decision)
      return decision === undefined
    })
  }

  const pump = (client: Client): void => {
    const undecided = serve(client, client.waiting, 0)
    const [first] = undecided
    client.waiting = []
    if (first === undefined) return
    const { limits } = first
    const isLike = (w: Waiter): boolean =>
      w.limits.perMinute === limits.perMinute && w.limits.perDay === limits.perDay
    const batch = undecided.filter(isLike)
    client.waiting = undecided.filter((w) => !isLike(w))
    const asked = ask(client, batch.filter((waiter) => waiter.kind === 'take').length, limits)
    if (asked !== undefined) {
      client.inFlight = follow(client, batch, asked)
      return
    }
    client.waiting = []
    lose(client, undecided)
  }

  return {
    get isImmediate() {
      return isImmediate
    },

    take: (client, limits) => {
      type Resolve = (decision: QuotaDecision) => void
      const waiter = (resolve: Resolve): Waiter => ({ kind: 'take', limits, resolve })
      if (client.isCalling) return new Promise((resolve) => client.waiting.push(waiter(resolve)))
      for (let attempt = 0; attempt < LOSSES_IN_A_ROW; attempt++) {
        const asked = ask(client, 1, limits)
        if (asked === undefined) break
        const { call, answer } = asked
        if (answer instanceof Promise)
          return new Promise((resolve) => {
            client.inFlight = follow(client, [waiter(resolve)], asked)
          })
        const served = absorb(client, call, answer)
        if (served === undefined) continue
        const { lease } = client
        const nowMs = clock.nowMs()
        const decision =
          served > 0 ? spend(lease, limits, nowMs) : decideFromMemory(lease, limits, nowMs)
        if (decision !== undefined) return decision
      }
      return withoutAuthority(client, limits)
    },

    look: (client, limits) => {
      type Resolve = (view: QuotaView | undefined) => void
      const waiter = (resolve: Resolve): Waiter => ({ kind: 'look', limits, resolve })
      if (client.isCalling) return new Promise((resolve) => client.waiting.push(waiter(resolve)))
      const asked = ask(client, 0, limits)
      if (asked === undefined) return undefined
      const { call, answer } = asked
      if (answer instanceof Promise)
        return new Promise((resolve) => {
          client.inFlight = follow(client, [waiter(resolve)], asked)
        })
      absorb(client, call, answer)
      return quotaView(client.lease, limits, clock.nowMs())
    },

    settle: (client) => {
      const takeBack = letGo(client.lease)
      const asked = ask(client, 0, client.lease.limits)
      if (asked === undefined) {
        takeBack()
        return false
      }
      if (asked.answer instanceof Promise) client.inFlight = follow(client, [], asked)
      else absorb(client, asked.call, asked.answer)
      return true
    },
  }
}
