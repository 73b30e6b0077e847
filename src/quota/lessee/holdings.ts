/** Looks after what this process holds of its clients: gives back what lies idle or what others wait for, and states what is uncertain. */
import type { Client } from '../client.ts'
import type { LeaseCalls } from './lease-calls.ts'
import { keptAtReclaim } from './lease-size.ts'
import { hasUnspent, hasUnstated, inHand, limitOf, type Lease } from './lease.ts'
import type { Timers } from '../timers.ts'

const SWEEP_EVERY_MS = 100
/** A holder comes under review once in so many sweeps, so that no sweep is long. */
const SWEEPS_PER_ROUND = 5
/** Unspent tokens of a client that is idle for so long go back, since others may need them. */
const IDLE_BEFORE_RETURN_MS = 6_000
/** The same once little is left for the others. */
const IDLE_WHEN_SCARCE_MS = 3_000
/** What was spent of a lease is told with the next call; for a client that makes none, after this. */
const IDLE_BEFORE_STATING_MS = 60_000
const SCARCE_MINUTE = 3 / 4
const SCARCE_DAY = 9 / 10
const SETTLING_AT_ONCE = 64

export interface Holdings {
  /** The authority may believe something else of this client: state it as soon as it listens. */
  suspect(client: Client): void
  clear(client: Client): void
  isUncertain(client: Client): boolean
  /** Tokens may be in hand, or use unstated. */
  watch(client: Client): void
  /** Others wait for tokens of this client, or the authority knew nothing of it (isUnknown). */
  reclaim(client: Client, isUnknown: boolean): void
  /** States all that is uncertain, a bounded number at a time. */
  settleUncertain(): void
  /** States and gives back everything; resolves when all calls are answered. */
  drain(): Promise<void>
}

export function createHoldings({
  calls,
  clock,
  timers,
}: {
  calls: Pick<LeaseCalls, 'settle'>
  clock: { nowMs(): number }
  timers: Timers
}): Holdings {
  const uncertain = new Set<Client>()
  /** A list, since a Set that changes with every lease would leave dead tables for the collector to walk. */
  const holders: Client[] = []
  let reviewed = 0
  let settling = 0
  let isDraining = false

  /** Starts to settle the client; false if the authority is away. */
  const settle = (client: Client, kept = 0): boolean => {
    if (!calls.settle(client, kept)) return false
    uncertain.delete(client)
    return true
  }

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

  const leave = (at: number): void => {
    const last = holders.pop()
    const client = holders[at] ?? last
    if (client === undefined || last === undefined) return
    client.isHolder = false
    if (client !== last) holders[at] = last
  }

  const review = (): void => {
    const nowMs = clock.nowMs()
    let left = Math.ceil(holders.length / SWEEPS_PER_ROUND)
    for (; left > 0 && holders.length > 0; left--) {
      if (reviewed >= holders.length) reviewed = 0
      const client = holders[reviewed]
      if (client === undefined) return
      const { lease } = client
      if (!hasUnspent(lease) && !hasUnstated(lease)) {
        leave(reviewed)
        continue
      }
      reviewed += 1
      const dueAfterMs = hasUnspent(lease) ? idleMs(lease) : IDLE_BEFORE_STATING_MS
      if (client.isCalling || nowMs - lease.lastUsedMs < dueAfterMs) continue
      if (!settle(client)) return
    }
  }

  const stopSweeping = timers.every(SWEEP_EVERY_MS, () => {
    settleUncertain()
    review()
  })

  const reclaim = (client: Client, isUnknown: boolean): void => {
    if (client.isCalling) {
      client.reclaim = isUnknown || client.reclaim === 'unknown' ? 'unknown' : 'short'
      return
    }
    client.reclaim = 'none'
    const { lease } = client
    const nowMs = clock.nowMs()
    const kept = keptAtReclaim(lease.pace, nowMs - lease.lastUsedMs)
    const isEcho = isUnknown && nowMs < client.echoUntilMs
    // Only once: the next one within the same second would be of another loss.
    if (isEcho) client.echoUntilMs = -Infinity
    const isForgotten = isUnknown && !isEcho && lease.day.used > 0
    const isUntold = isForgotten || hasUnstated(lease)
    if (inHand(lease) > kept || isUntold) settle(client, kept)
  }

  return {
    suspect: (client) => void uncertain.add(client),
    clear: (client) => void uncertain.delete(client),
    isUncertain: (client) => uncertain.has(client),
    watch: (client) => {
      if (client.reclaim !== 'none') reclaim(client, client.reclaim === 'unknown')
      if (client.isHolder || isDraining) return
      if (!hasUnspent(client.lease) && !hasUnstated(client.lease)) return
      client.isHolder = true
      holders.push(client)
    },
    reclaim,
    settleUncertain,
    drain: async () => {
      stopSweeping()
      isDraining = true
      const queue = [...new Set([...uncertain, ...holders])].values()
      const worker = async (): Promise<void> => {
        for (const client of queue) {
          while (client.isCalling) await client.inFlight
          if (!uncertain.has(client) && !hasUnspent(client.lease) && !hasUnstated(client.lease))
            continue
          if (settle(client)) await client.inFlight
        }
      }
      await Promise.all(Array.from({ length: SETTLING_AT_ONCE }, worker))
    },
  }
}

function idleMs({ minute, day, limits }: Lease): number {
  const isScarce =
    (minute.taken ?? 0) > SCARCE_MINUTE * limitOf(limits, minute) ||
    (day.taken ?? 0) > SCARCE_DAY * limitOf(limits, day)
  return isScarce ? IDLE_WHEN_SCARCE_MS : IDLE_BEFORE_RETURN_MS
}
