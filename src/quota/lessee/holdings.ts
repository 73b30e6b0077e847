/**
 * Looks after the tokens this process holds: returns what lies idle or what others wait for, and states again what the
 * authority may not know. `uncertain` and `holders` are the clients it has to see to; at drain it sees to all of them.
 */
import type { Client } from './client.ts'
import type { LeaseCalls } from './lease-calls.ts'
import { keptAtReclaim } from './lease-size.ts'
import type { Lease } from './lease.ts'
import type { Timers } from '../timers.ts'

const SWEEP_EVERY_MS = 100
/** A holder comes under review once in so many sweeps, so that no sweep is long. */
const SWEEPS_PER_ROUND = 5
/** Unspent tokens of a client that is idle for so long go back, since others may need them. */
const IDLE_BEFORE_RETURN_MS = 6_000
/** The same once little is left for the others. */
const IDLE_WHEN_SCARCE_MS = 3_000
/** The next call states what was spent of a lease; for a client that makes none, this process states it after so long. */
const IDLE_BEFORE_STATING_MS = 60_000
const SCARCE_MINUTE = 3 / 4
const SCARCE_DAY = 9 / 10
const SETTLING_AT_ONCE = 64

export class Holdings {
  /** Of these the authority may believe something else: their use is stated as soon as it listens. Written by lessee.ts and here. */
  readonly uncertain = new Set<Client>()
  readonly #calls: LeaseCalls
  readonly #clock: { nowMs(): number }
  /** Clients with tokens in hand or use unstated. A list, since a Set that changes with every lease would leave dead tables for the collector to walk. */
  readonly #holders: Client[] = []
  /** The place in #holders that comes under review next. */
  #reviewed = 0
  /** Calls of settleUncertain that are under way. */
  #settling = 0
  #isDraining = false
  readonly #stopSweeping: () => void

  constructor(calls: LeaseCalls, clock: { nowMs(): number }, timers: Timers) {
    this.#calls = calls
    this.#clock = clock
    this.#stopSweeping = timers.every(SWEEP_EVERY_MS, () => {
      this.settleUncertain()
      this.#review()
    })
  }

  /** A call for this client is over, or a charge was refunded: tokens may be in hand, or use unstated. */
  watch(client: Client): void {
    if (client.reclaim !== 'none') this.reclaim(client, client.reclaim === 'unknown')
    if (client.isHolder || this.#isDraining || !isHolding(client.lease)) return
    client.isHolder = true
    this.#holders.push(client)
  }

  /** The authority asks for tokens of this client, since others wait for them, or knew nothing of it (isUnknown). */
  reclaim(client: Client, isUnknown: boolean): void {
    if (client.isCalling) {
      client.reclaim = isUnknown || client.reclaim === 'unknown' ? 'unknown' : 'short'
      return
    }
    client.reclaim = 'none'
    const { lease } = client
    const nowMs = this.#clock.nowMs()
    const kept = keptAtReclaim(lease.pace, nowMs - lease.lastUsedMs)
    const isEcho = isUnknown && nowMs < client.echoUntilMs
    // Only once: the next one within the same second would be of another loss.
    if (isEcho) client.echoUntilMs = -Infinity
    const isForgotten = isUnknown && !isEcho && lease.day.used > 0
    if (lease.inHand() > kept || isForgotten || lease.hasUnstated()) this.#settle(client, kept)
  }

  /** States all that is uncertain, a bounded number at a time. */
  settleUncertain(): void {
    for (const client of this.uncertain) {
      if (this.#settling >= SETTLING_AT_ONCE) return
      if (client.isCalling) continue
      if (!this.#settle(client)) return
      this.#settling += 1
      void Promise.resolve(client.inFlight).then(() => {
        this.#settling -= 1
        // After a failure the next sweep tries again; going on at once would be a storm.
        if (!this.uncertain.has(client)) this.settleUncertain()
      })
    }
  }

  /** States and returns everything; resolves when all calls are answered. */
  async drain(): Promise<void> {
    this.#stopSweeping()
    this.#isDraining = true
    const queue = [...new Set([...this.uncertain, ...this.#holders])].values()
    const worker = async (): Promise<void> => {
      for (const client of queue) {
        while (client.isCalling) await client.inFlight
        if (!this.uncertain.has(client) && !isHolding(client.lease)) continue
        if (this.#settle(client)) await client.inFlight
      }
    }
    await Promise.all(Array.from({ length: SETTLING_AT_ONCE }, worker))
  }

  /** Starts to settle the client; false if the authority is away. */
  #settle(client: Client, kept = 0): boolean {
    if (!this.#calls.settle(client, kept)) return false
    this.uncertain.delete(client)
    return true
  }

  /** Returns the tokens of clients that are idle, and forgets those that hold nothing any more. */
  #review(): void {
    const nowMs = this.#clock.nowMs()
    let left = Math.ceil(this.#holders.length / SWEEPS_PER_ROUND)
    for (; left > 0 && this.#holders.length > 0; left--) {
      if (this.#reviewed >= this.#holders.length) this.#reviewed = 0
      const client = this.#holders[this.#reviewed]
      if (client === undefined) return
      const { lease } = client
      if (!isHolding(lease)) {
        client.isHolder = false
        // The last holder takes its place.
        const last = this.#holders.pop()
        if (last !== undefined && last !== client) this.#holders[this.#reviewed] = last
        continue
      }
      this.#reviewed += 1
      const dueAfterMs = lease.hasUnspent() ? idleMs(lease) : IDLE_BEFORE_STATING_MS
      if (client.isCalling || nowMs - lease.lastUsedMs < dueAfterMs) continue
      if (!this.#settle(client)) return
    }
  }
}

function isHolding(lease: Lease): boolean {
  return lease.hasUnspent() || lease.hasUnstated()
}

function idleMs({ minute, day, limits }: Lease): number {
  const isScarce =
    (minute.taken ?? 0) > SCARCE_MINUTE * minute.limitOf(limits) ||
    (day.taken ?? 0) > SCARCE_DAY * day.limitOf(limits)
  return isScarce ? IDLE_WHEN_SCARCE_MS : IDLE_BEFORE_RETURN_MS
}
