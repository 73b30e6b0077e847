/**
 * Looks after the tokens this process holds: returns what lies idle, and what others wait for as notices tell it, and states again
 * what the authority may not know. `uncertain` and `holders` are the clients it has to see to; at drain it sees to all of them.
 */
import type { Client } from './client.ts'
import type { LeaseCalls } from './lease-calls.ts'
import type { Notice } from '../../state/quota.ts'
import type { Timers } from '../../state/timers.ts'

const SWEEP_EVERY_MS = 100
/** A holder comes under review once in so many sweeps, so that no sweep is long. */
const SWEEPS_PER_ROUND = 5
/** What a client has left when it is idle for so long goes back, so that what others tell to remain is true, and a crash loses less. */
const IDLE_BEFORE_RETURN_MS = 6_000
const SETTLING_AT_ONCE = 64
/** States what was used; what is in hand goes back. */
const RETURNING = { returns: true }

export class Holdings {
  /** Their use is stated as soon as the authority listens. Written by client.ts. */
  readonly uncertain = new Set<Client>()
  readonly #calls: LeaseCalls
  readonly #clock: { nowMs(): number }
  /** Clients with tokens in hand or use unstated. A list, since a Set that changes with every lease would leave dead tables for the collector to walk. */
  readonly #holders: Client[] = []
  /** The place in #holders that comes under review next. */
  #reviewed = 0
  /** Calls of settleUncertain that are under way. */
  #settling = 0
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
    for (const notice of client.takeDeferred()) this.hear(client, notice)
    if (client.isHolder || !client.lease.isHolding()) return
    client.isHolder = true
    this.#holders.push(client)
  }

  /** The authority has told all processes something of this client. */
  hear(client: Client, notice: Notice): void {
    // Also while a refused request waits for this very news: who comes meanwhile waits with it.
    if (notice === 'free' || notice === 'reset') client.lease.forgetRefusals()
    if (client.isCalling) return client.defer(notice)
    client.hear(notice)
    const isAsked = notice === 'unknown' || notice === 'reset'
    const isForgotten = isAsked && client.lease.isTold(this.#clock.nowMs())
    const isHolding = notice !== 'free' && client.lease.isHolding()
    if (isHolding || isForgotten) this.#calls.call(client, RETURNING)
  }

  /** States all that is uncertain, a bounded number at a time. */
  settleUncertain(): void {
    for (const client of this.uncertain) {
      if (this.#settling >= SETTLING_AT_ONCE) return
      if (client.isCalling) continue
      if (!this.#calls.call(client, RETURNING)) return
      this.#settling += 1
      void Promise.resolve(client.inFlight).then(() => {
        this.#settling -= 1
        // After a failure the next sweep tries again; going on at once would be a storm.
        if (!client.isUncertain) this.settleUncertain()
      })
    }
  }

  /** States and returns everything; resolves when all calls are answered. */
  async drain(): Promise<void> {
    this.#stopSweeping()
    const queue = [...new Set([...this.uncertain, ...this.#holders])].values()
    const worker = async (): Promise<void> => {
      for (const client of queue) {
        while (client.isCalling) await client.inFlight
        if (client.isUncertain || client.lease.isHolding()) this.#calls.call(client, RETURNING)
        await client.inFlight
      }
    }
    await Promise.all(Array.from({ length: SETTLING_AT_ONCE }, worker))
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
      if (!lease.isHolding()) {
        client.isHolder = false
        // The last holder takes its place.
        const last = this.#holders.pop()
        if (last !== undefined && last !== client) this.#holders[this.#reviewed] = last
        continue
      }
      this.#reviewed += 1
      const dueAfterMs = client.isWanted ? 0 : IDLE_BEFORE_RETURN_MS
      if (client.isCalling || nowMs - lease.lastUsedMs < dueAfterMs) continue
      if (!this.#calls.call(client, RETURNING)) return
    }
  }
}
