/**
 * The calls of this process to the authority: one in flight per client, shared by all who wait, and what happens when it
 * fails. Who arrives during a call goes with the next, so nobody waits much longer than two calls may take.
 */
import type { Limits, OutageMode } from '../../config/config.ts'
import { createAsking, type Asked, type Asking, type AskingOptions } from './asking.ts'
import type { Client, Waiter } from '../client.ts'
import { decideFromMemory, letGo, spend } from './lease.ts'
import type { QuotaObserver } from '../observer.ts'
import { decideDuringOutage } from './outage-count.ts'
import type { QuotaView } from '../../rules/quota-headers.ts'
import type { QuotaDecision } from '../protocol.ts'
import { quotaView } from '../quota-view.ts'
import type { Timers } from '../timers.ts'

const ASK_AGAIN_AFTER_LOSS_MS = 15
const LOSSES_IN_A_ROW = 3
/** Others answer a reclaim within this, on a network that is well. */
const ASK_AGAIN_AFTER_RECALL_MS = 10
/** An authority so slow is not asked a second time by the same request. */
const SLOW_CALL_MS = 20

export interface LeaseCallsOptions extends AskingOptions {
  readonly timers: Timers
  readonly outage: OutageMode
  /** Mode local begins after a silence of this length; until then what is not in hand is refused as in mode closed. */
  readonly localAfterMs: number
  readonly observe: QuotaObserver | undefined
  /** The authority may not know what the client used: state it as soon as it listens. */
  onUncertain(client: Client): void
  /** A call that was answered is over. */
  onAnswered(client: Client): void
}

export interface LeaseCalls extends Pick<Asking, 'isImmediate'> {
  /** Asks for one token; the caller has found no answer in memory. */
  take(client: Client, limits: Limits): QuotaDecision | Promise<QuotaDecision>
  peek(client: Client, limits: Limits): QuotaView | undefined | Promise<QuotaView | undefined>
  /** Asks for more ahead of need. Not while a call is under way. */
  prefetch(client: Client): void
  /** States what was used and gives back all that is in hand but `kept` tokens; false if the authority is away. Not while a call is under way. */
  settle(client: Client, kept?: number): boolean
}

export function createLeaseCalls(options: LeaseCallsOptions): LeaseCalls {
  const { clock, timers, outage, observe } = options
  const asking = createAsking(options)
  let silentSinceMs: number | undefined

  const withoutAuthority = (client: Client, limits: Limits): QuotaDecision => {
    const nowMs = clock.nowMs()
    silentSinceMs ??= nowMs
    const isEarly = outage === 'local' && nowMs - silentSinceMs < options.localAfterMs
    const mode = isEarly ? 'closed' : outage
    observe?.degraded(mode)
    options.onUncertain(client)
    const times = { nowMs, storeNowMs: asking.storeNowMs() }
    return decideDuringOutage(client.lease, limits, { mode, times })
  }

  const lose = (client: Client, waiters: readonly Waiter[]): void => {
    for (const waiter of waiters) {
      if (waiter.kind === 'peek') waiter.resolve(undefined)
      else waiter.resolve(withoutAuthority(client, waiter.limits))
    }
  }

  const follow = async (client: Client, batch: readonly Waiter[], asked: Asked): Promise<void> => {
    client.isCalling = true
    let undecided: readonly Waiter[] | undefined
    let pauseMs = 0
    try {
      const reply = await asked.answer
      const outcome = asking.absorb(client, asked, reply)
      silentSinceMs = undefined
      if (outcome !== undefined) {
        const isSlow = clock.nowMs() - asked.sentMs > SLOW_CALL_MS
        const tokens = outcome.late ? 0 : outcome.tokens
        undecided = serve(client, batch, { tokens, mayWait: outcome.reclaimed && !isSlow })
        if (undecided.some((waiter) => waiter.hasReclaimed)) pauseMs = ASK_AGAIN_AFTER_RECALL_MS
      } else if (reply.status === 'lost' && client.lostInARow < LOSSES_IN_A_ROW) {
        undecided = batch
        pauseMs = ASK_AGAIN_AFTER_LOSS_MS
      }
    } catch {
      // The reason is the adapter's to count; here it only means that nobody answered.
    }
    if (pauseMs > 0) await timers.after(pauseMs)
    client.isCalling = false
    const others = client.waiting
    client.waiting = []
    if (undecided === undefined) {
      client.lostInARow = 0
      options.onUncertain(client)
      // Those who queued behind a call that failed do not wait for a second time-out.
      lose(client, [...batch, ...others])
      return
    }
    client.waiting = undecided.length === 0 ? others : [...undecided, ...others]
    if (client.waiting.length > 0) pump(client)
    if (!client.isCalling) options.onAnswered(client)
  }

  /** Hands tokens out in order of arrival; returns those for whom nothing is decided. */
  const serve = (
    client: Client,
    batch: readonly Waiter[],
    { tokens, mayWait }: { tokens: number; mayWait: boolean },
  ): Waiter[] => {
    const nowMs = clock.nowMs()
    let left = tokens
    return batch.filter((waiter) => {
      if (waiter.kind === 'peek') {
        waiter.resolve(quotaView(client.lease, waiter.limits, nowMs))
        return false
      }
      const decision =
        left-- > 0
          ? spend(client.lease, waiter.limits, nowMs)
          : decideFromMemory(client.lease, waiter.limits, nowMs)
      if (decision?.kind === 'refused' && mayWait && !waiter.hasReclaimed) {
        waiter.hasReclaimed = true
        return true
      }
      if (decision !== undefined) waiter.resolve(decision)
      return decision === undefined
    })
  }

  /** Decides what memory can decide, and asks for the rest. */
  const pump = (client: Client): void => {
    const retry = client.waiting.some((waiter) => waiter.hasReclaimed)
    // After a reclaim the refusal in memory is what is to be asked about again.
    const undecided = retry
      ? client.waiting
      : serve(client, client.waiting, { tokens: 0, mayWait: false })
    const [first] = undecided
    client.waiting = []
    if (first === undefined) return
    const { limits } = first
    const isLike = (w: Waiter): boolean =>
      w.limits.perMinute === limits.perMinute && w.limits.perDay === limits.perDay
    const batch = undecided.filter(isLike)
    client.waiting = undecided.filter((w) => !isLike(w))
    const need = batch.filter((waiter) => waiter.kind === 'take').length
    const asked = asking.ask(client, { need, ahead: need > 0, limits })
    if (asked !== undefined) {
      client.inFlight = follow(client, batch, asked)
      return
    }
    client.waiting = []
    lose(client, undecided)
  }

  /** Asks for one token of an authority in this process, again if it has lost its data; undefined: it has no answer. */
  const takeAtOnce = (client: Client, limits: Limits, first: Asked): QuotaDecision | undefined => {
    let asked: Asked | undefined = first
    for (let attempt = 0; attempt < LOSSES_IN_A_ROW && asked !== undefined; attempt++) {
      if (asked.answer instanceof Promise) return undefined
      const outcome = asking.absorb(client, asked, asked.answer)
      if (outcome !== undefined) {
        const { lease } = client
        const nowMs = clock.nowMs()
        const decision =
          outcome.tokens > 0 ? spend(lease, limits, nowMs) : decideFromMemory(lease, limits, nowMs)
        if (decision !== undefined) return decision
      }
      asked = asking.ask(client, { need: 1, ahead: false, limits })
    }
    return undefined
  }

  return {
    get isImmediate() {
      return asking.isImmediate
    },

    take: (client, limits) => {
      type Resolve = (decision: QuotaDecision) => void
      const waiter = (resolve: Resolve): Waiter => ({ kind: 'take', limits, resolve })
      if (client.isCalling) return new Promise((resolve) => client.waiting.push(waiter(resolve)))
      const asked = asking.ask(client, { need: 1, ahead: true, limits })
      if (asked?.answer instanceof Promise)
        return new Promise((resolve) => {
          client.inFlight = follow(client, [waiter(resolve)], asked)
        })
      const decision = asked && takeAtOnce(client, limits, asked)
      return decision ?? withoutAuthority(client, limits)
    },

    peek: (client, limits) => {
      type Resolve = (view: QuotaView | undefined) => void
      const waiter = (resolve: Resolve): Waiter => ({ kind: 'peek', limits, resolve })
      if (client.isCalling) return new Promise((resolve) => client.waiting.push(waiter(resolve)))
      const asked = asking.ask(client, { need: 0, ahead: false, limits })
      if (asked === undefined) return undefined
      if (asked.answer instanceof Promise)
        return new Promise((resolve) => {
          client.inFlight = follow(client, [waiter(resolve)], asked)
        })
      asking.absorb(client, asked, asked.answer)
      return quotaView(client.lease, limits, clock.nowMs())
    },

    prefetch: (client) => {
      const asked = asking.ask(client, { need: 0, ahead: true, limits: client.lease.limits })
      if (asked !== undefined) client.inFlight = follow(client, [], asked)
    },

    settle: (client, kept = 0) => {
      const takeBack = letGo(client.lease, kept)
      const asked = asking.ask(client, { need: 0, ahead: false, limits: client.lease.limits })
      if (asked === undefined) {
        takeBack()
        return false
      }
      if (asked.answer instanceof Promise) client.inFlight = follow(client, [], asked)
      else asking.absorb(client, asked, asked.answer)
      return true
    },
  }
}
