/** Decides the requests of this process: from memory where the answer is known, else through one call to the authority. */
import type { Limits, OutageMode } from '../../config/config.ts'
import { createAfterOutage } from './after-outage.ts'
import type { Client } from '../client.ts'
import { createHoldings } from './holdings.ts'
import { createLeaseCalls } from './lease-calls.ts'
import { createLease, decideFromMemory, isTold } from './lease.ts'
import type { QuotaObserver } from '../observer.ts'
import type { Authority, Lessee, QuotaDecision } from '../protocol.ts'
import { quotaView } from '../quota-view.ts'
import { createRecencyTable } from './recency-table.ts'
import { systemTimers, type Timers } from '../timers.ts'

/** A client that is idle for so long is forgotten; the authority keeps its counts. */
const IDLE_BEFORE_FORGETTING_MS = 3_600_000
const FORGET_EVERY_MS = 60_000
const LOSS_PASS_EVERY_MS = 1000
/** Enough for tens of thousands of leases; a store that is away ends it sooner. */
const DRAIN_AT_MOST_MS = 2000

export interface LesseeOptions {
  readonly authority: Authority
  /** Unique per boot of this process. */
  readonly processId: string
  /** nowMs: monotonic, in ms. epochMs: Unix time in ms, used only until the authority has told its own. */
  readonly clock: { nowMs(): number; epochMs(): number }
  /** How requests are decided while the authority is away. */
  readonly outage: OutageMode
  /** Processes known to share each client from the start; shares are never larger than among so many. Default 1. */
  readonly processes?: number
  /** See LeaseCallsOptions; 0 unless given. */
  readonly localAfterMs?: number
  /** auto: tokens are held ahead of need, unless the authority is in this process. off: one call per request. */
  readonly lease?: 'auto' | 'off'
  readonly observe?: QuotaObserver
  readonly timers?: Timers
  /** When more clients are met, those not seen lately are forgotten. */
  readonly maxClients?: number
}

export function createLessee(options: LesseeOptions): Lessee {
  const { clock, processId, observe, timers = systemTimers, maxClients = 100_000 } = options
  const isIdle = (client: Client): boolean =>
    !client.isCalling && !client.isHolder && !holdings.isUncertain(client)
  const clients = createRecencyTable<Client>({ maxEntries: maxClients, mayDrop: isIdle })
  let incarnations = 0

  const afterOutage = createAfterOutage(options.outage)
  let lossHandledUntilMs = -Infinity
  const calls = createLeaseCalls({
    ...options,
    lease: options.lease ?? 'auto',
    localAfterMs: options.localAfterMs ?? 0,
    leastProcesses: options.processes ?? 1,
    timers,
    observe,
    onUncertain: (client) => {
      holdings.suspect(client)
      afterOutage.suspect(client, clock.nowMs())
    },
    onCertain: (client) => holdings.clear(client),
    onAnswered: (client) => holdings.watch(client),
    onLoss: () => {
      const nowMs = clock.nowMs()
      // Every client that the loss has hit says so; one pass serves them all. The embedded authority loses single clients only.
      if (calls.isImmediate || nowMs < lossHandledUntilMs) return
      lossHandledUntilMs = nowMs + LOSS_PASS_EVERY_MS
      restateAll()
    },
  })
  const holdings = createHoldings({ calls, clock, timers })

  const restateAll = (): void => {
    const nowMs = clock.nowMs()
    let activeProcesses = 1
    for (const { lease } of clients.values())
      activeProcesses = Math.max(activeProcesses, lease.activeProcesses)
    afterOutage.begin(activeProcesses, nowMs)
    for (const client of clients.values())
      if (client.lease.day.used > 0 && nowMs < client.lease.day.endsByMs) holdings.suspect(client)
    holdings.settleUncertain()
  }

  const clientOf = (id: string, limits: Limits, nowMs: number): Client => {
    let client = clients.get(id)
    if (client === undefined) {
      // A new holder name each time: what a forgotten lease used stays counted under the old one.
      const holder = `${processId}.${(incarnations++).toString(36)}`
      client = {
        lease: createLease(id, { holder, limits, nowMs, processes: options.processes ?? 1 }),
        isCalling: false,
        inFlight: undefined,
        waiting: [],
        pending: 0,
        suspectUntilMs: -Infinity,
        lostInARow: 0,
        isHolder: false,
        reclaim: 'none',
        echoUntilMs: -Infinity,
      }
      clients.add(id, client)
    }
    client.lease.limits = limits
    client.lease.lastUsedMs = nowMs
    return client
  }

  const tell = (decision: QuotaDecision): QuotaDecision => {
    observe?.decision(decision.kind === 'refused' ? decision.window : 'none', decision.kind)
    return decision
  }

  const stopForgetting = timers.every(FORGET_EVERY_MS, () => {
    const nowMs = clock.nowMs()
    for (const [id, client] of clients.entries())
      if (nowMs - client.lease.lastUsedMs >= IDLE_BEFORE_FORGETTING_MS && isIdle(client))
        clients.delete(id)
  })
  options.authority.onReturn?.(restateAll)
  options.authority.onReclaim?.((id, isUnknown) => {
    const client = clients.peek(id)
    if (client !== undefined) holdings.reclaim(client, isUnknown === true)
  })

  return {
    take: (id, limits) => {
      const nowMs = clock.nowMs()
      const client = clientOf(id, limits, nowMs)
      const { lease } = client
      lease.pace.seen += 1
      const known = decideFromMemory(lease, limits, nowMs)
      if (known !== undefined) {
        const isRunningOut = lease.minute.held - lease.minute.used <= lease.prefetchAt
        if (isRunningOut && !client.isCalling && known.kind === 'admitted') calls.prefetch(client)
        return tell(known)
      }
      const decision = afterOutage.refusal(client, limits, nowMs) ?? calls.take(client, limits)
      if (!(decision instanceof Promise)) return tell(decision)
      client.pending += 1
      return decision.then((decided) => {
        client.pending -= 1
        return tell(decided)
      })
    },

    peek: (id, limits) => {
      const nowMs = clock.nowMs()
      const client = clientOf(id, limits, nowMs)
      if (isTold(client.lease, nowMs) && !holdings.isUncertain(client))
        return quotaView(client.lease, limits, nowMs)
      return calls.peek(client, limits)
    },

    refund: (id, { minuteIndex, dayIndex }) => {
      const client = clients.get(id)
      if (client === undefined) return
      const { minute, day } = client.lease
      if (minute.index === minuteIndex && minute.used > 0) minute.used -= 1
      if (day.index === dayIndex && day.used > 0) day.used -= 1
      if (calls.isImmediate) calls.settle(client)
      else holdings.watch(client)
    },

    drain: async () => {
      stopForgetting()
      await Promise.race([holdings.drain(), timers.after(DRAIN_AT_MOST_MS)])
    },
  }
}
