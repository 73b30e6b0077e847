/** Decides the requests of this process: from memory where the answer is known, else through one call to the authority. */
import type { Limits, OutageMode } from '../config/config.ts'
import { createAfterOutage } from './after-outage.ts'
import type { Client } from './client.ts'
import { createLeaseCalls } from './lease-calls.ts'
import { createLease, decideFromMemory, hasUnspent, isTold, quotaView } from './lease.ts'
import type { QuotaObserver } from './observer.ts'
import type { Authority, Lessee, QuotaDecision } from './protocol.ts'
import { createRecencyTable } from './recency-table.ts'
import { systemTimers, type Timers } from './timers.ts'

const SWEEP_EVERY_MS = 500
/** Unspent tokens of a client that is idle for so long go back, since others may need them. */
const IDLE_BEFORE_RETURN_MS = 3000
/** A client that is idle for so long is forgotten; the authority keeps its counts. */
const IDLE_BEFORE_FORGETTING_MS = 3_600_000
const FORGET_EVERY_MS = 60_000
const LOSS_PASS_EVERY_MS = 1000
const SETTLING_AT_ONCE = 64

export interface LesseeOptions {
  readonly authority: Authority
  /** Unique per boot of this process. */
  readonly processId: string
  /** nowMs: monotonic, in ms. epochMs: Unix time in ms, used only until the authority has told its own. */
  readonly clock: { nowMs(): number; epochMs(): number }
  /** How requests are decided while the authority is away. */
  readonly outage: OutageMode
  /** Bound of one call to the authority, kept by the authority; bounds drain() too. */
  readonly timeoutMs: number
  readonly observe?: QuotaObserver
  readonly timers?: Timers
  /** When more clients are met, those not seen lately are forgotten. */
  readonly maxClients?: number
}

export function createLessee(options: LesseeOptions): Lessee {
  const { clock, processId, observe, timers = systemTimers, maxClients = 100_000 } = options
  /** Clients of which the authority may believe something else. */
  const uncertain = new Set<Client>()
  /** Clients with tokens in hand. */
  const unspent = new Set<Client>()
  const isIdle = (client: Client): boolean =>
    !client.isCalling && !uncertain.has(client) && !hasUnspent(client.lease)
  const clients = createRecencyTable<Client>({ maxEntries: maxClients, mayDrop: isIdle })
  let incarnations = 0
  let forgetAtMs = clock.nowMs() + FORGET_EVERY_MS

  const afterOutage = createAfterOutage(options.outage)
  const calls = createLeaseCalls({
    ...options,
    timers,
    observe,
    onUncertain: (client) => {
      uncertain.add(client)
      afterOutage.suspect(client, clock.nowMs())
    },
    onCertain: (client) => void uncertain.delete(client),
    onLoss: () => {
      const nowMs = clock.nowMs()
      // Every client that the loss has hit says so; one pass serves them all. The embedded authority loses single clients only.
      if (calls.isImmediate || nowMs < lossHandledUntilMs) return
      lossHandledUntilMs = nowMs + LOSS_PASS_EVERY_MS
      restateAll()
    },
  })

  let lossHandledUntilMs = -Infinity
  const restateAll = (): void => {
    const nowMs = clock.nowMs()
    let activeProcesses = 1
    for (const { lease } of clients.values())
      activeProcesses = Math.max(activeProcesses, lease.activeProcesses)
    afterOutage.begin(activeProcesses, nowMs)
    for (const client of clients.values())
      if (client.lease.day.used > 0 && nowMs < client.lease.day.endsByMs) uncertain.add(client)
    settleUncertain()
  }
  const clientOf = (id: string, limits: Limits, nowMs: number): Client => {
    let client = clients.get(id)
    if (client === undefined) {
      // A new holder name each time: what a forgotten lease used stays counted under the old one.
      const holder = `${processId}.${(incarnations++).toString(36)}`
      const lease = createLease(id, { holder, limits, nowMs })
      client = {
        lease,
        isCalling: false,
        inFlight: undefined,
        waiting: [],
        pending: 0,
        suspectUntilMs: -Infinity,
        lostInARow: 0,
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

  /** Starts to settle the client; false if the authority is away. */
  const settle = (client: Client): boolean => {
    if (!calls.settle(client)) return false
    uncertain.delete(client)
    unspent.delete(client)
    return true
  }

  let settling = 0
  const settleUncertain = (): void => {
    for (const client of uncertain) {
      if (settling >= SETTLING_AT_ONCE) return
      if (client.isCalling) continue
      if (!settle(client)) return
      settling += 1
      void Promise.resolve(client.inFlight).then(() => {
        settling -= 1
        // After a failure the next sweep tries again; going on at once would be a storm.
        if (!uncertain.has(client)) settleUncertain()
      })
    }
  }

  const sweep = (): void => {
    const nowMs = clock.nowMs()
    settleUncertain()
    for (const client of unspent) {
      if (!hasUnspent(client.lease)) unspent.delete(client)
      else if (!client.isCalling && nowMs - client.lease.lastUsedMs >= IDLE_BEFORE_RETURN_MS)
        if (!settle(client)) break
    }
    if (nowMs < forgetAtMs) return
    forgetAtMs = nowMs + FORGET_EVERY_MS
    for (const [id, client] of clients.entries())
      if (nowMs - client.lease.lastUsedMs >= IDLE_BEFORE_FORGETTING_MS && isIdle(client))
        clients.delete(id)
  }
  const stopSweeping = timers.every(SWEEP_EVERY_MS, sweep)
  options.authority.onReturn?.(restateAll)

  return {
    take: (id, limits) => {
      const nowMs = clock.nowMs()
      const client = clientOf(id, limits, nowMs)
      const decision =
        decideFromMemory(client.lease, limits, nowMs) ??
        afterOutage.refusal(client, limits, nowMs) ??
        calls.take(client, limits)
      if (!(decision instanceof Promise)) return tell(decision)
      client.pending += 1
      return decision.then((decided) => {
        client.pending -= 1
        return tell(decided)
      })
    },

    look: (id, limits) => {
      const nowMs = clock.nowMs()
      const client = clientOf(id, limits, nowMs)
      if (isTold(client.lease, nowMs) && !uncertain.has(client))
        return quotaView(client.lease, limits, nowMs)
      return calls.look(client, limits)
    },

    giveBack: (id, { minuteIndex, dayIndex }) => {
      const client = clients.get(id)
      if (client === undefined) return
      const { minute, day } = client.lease
      if (minute.index === minuteIndex && minute.used > 0) minute.used -= 1
      if (day.index === dayIndex && day.used > 0) day.used -= 1
      if (calls.isImmediate) settle(client)
      else unspent.add(client)
    },

    drain: async () => {
      stopSweeping()
      const queue = [...new Set([...uncertain, ...unspent])].values()
      const worker = async (): Promise<void> => {
        for (const client of queue) {
          while (client.isCalling) await client.inFlight
          if (settle(client)) await client.inFlight
        }
      }
      const workers = Array.from({ length: SETTLING_AT_ONCE }, worker)
      await Promise.race([Promise.all(workers), timers.after(options.timeoutMs)])
    },
  }
}
