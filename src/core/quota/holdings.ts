/**
 * Looks after the tokens that this process holds: returns idle ones, and those that others wait for according to notices, and
 * restates what the authority may not know. `uncertain` and `#holders` are the clients that need attention; drain settles all
 * of them.
 */
import type { Client } from './client.ts'
import type { LeaseCalls } from './lease-calls.ts'
import type { Notice } from '../../state/quota.ts'
import type { Timers } from '../../state/timers.ts'

const SWEEP_EVERY_MS = 100
/** Each holder is reviewed once in so many sweeps, so that no sweep is long. */
const SWEEPS_PER_ROUND = 5
/** Tokens of a client that is idle for so long are returned, so that others report the true remainder, and a crash loses less. */
const IDLE_BEFORE_RETURN_MS = 6_000
const SETTLING_AT_ONCE = 64
/** States what was used and returns what is in hand. */
const RETURNING = { returns: true }

export class Holdings {
  /** Clients whose use is stated as soon as the authority answers. Written by client.ts. */
  readonly uncertain = new Set<Client>()
  readonly #calls: LeaseCalls
  readonly #clock: { nowMs(): number }
  /**
   * Clients with tokens in hand or unstated use. A list, since a Set that changes with every lease would leave dead tables for
   * the garbage collector to walk.
   */
  readonly #holders: Client[] = []
  /** Index in #holders of the client to be reviewed next. */
  #reviewed = 0
  /** Calls of settleUncertain under way. */
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

  /** A call for this client has ended, or a charge was refunded: there may be tokens in hand or unstated use. */
  watch(client: Client): void {
    for (const notice of client.takeDeferred()) this.handleNotice(client, notice)
    if (client.isHolder || !client.lease.isHolding()) return
    client.isHolder = true
    this.#holders.push(client)
  }

  /** Handles a notice that the authority has sent to all processes. */
  handleNotice(client: Client, notice: Notice): void {
    // This applies during a call, too: a refused request may wait for this notice, and new ones wait with it.
    if (notice === 'free' || notice === 'reset') client.lease.forgetRefusals()
    if (client.isCalling) return client.defer(notice)
    client.applyNotice(notice)
    const isAsked = notice === 'unknown' || notice === 'reset'
    const isForgotten = isAsked && client.lease.knowsDay(this.#clock.nowMs())
    const isHolding = notice !== 'free' && client.lease.isHolding()
    if (isHolding || isForgotten) this.#calls.call(client, RETURNING)
  }

  /** States the use of all uncertain clients, a bounded number at a time. */
  settleUncertain(): void {
    for (const client of this.uncertain) {
      if (this.#settling >= SETTLING_AT_ONCE) return
      if (client.isCalling) continue
      if (!this.#calls.call(client, RETURNING)) return
      this.#settling += 1
      void Promise.resolve(client.inFlight).then(() => {
        this.#settling -= 1
        // After a failure the next sweep tries again; a retry at once would cause a storm of calls.
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

  /** Returns the tokens of idle clients, and removes clients that hold nothing. */
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
        // The last holder moves to the free index.
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
