/**
 * Looks after the tokens that this process holds: returns idle ones, and those that others wait for according to notices, and
 * restates what the authority may not know. `uncertain` of the calls and `#holders` are the leases that need attention; drain settles all of
 * them.
 */
import type { LeaseCalls } from './lease-calls.ts'
import type { Lease } from './lease.ts'
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
  readonly #calls: LeaseCalls
  readonly #clock: { nowMs(): number }
  /**
   * Leases with tokens in hand or unstated use. A list, since a Set that changes with every lease would leave dead tables for
   * the garbage collector to walk.
   */
  readonly #holders: Lease[] = []
  /** Index in #holders of the lease to be reviewed next. */
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

  /** A call for this lease has ended, or a charge was refunded: there may be tokens in hand or unstated use. */
  watch(lease: Lease): void {
    for (const notice of lease.takeDeferred()) this.handleNotice(lease, notice)
    if (lease.isWatched || !lease.isHolding()) return
    lease.isWatched = true
    this.#holders.push(lease)
  }

  /** Handles a notice that the authority has sent to all processes. */
  handleNotice(lease: Lease, notice: Notice): void {
    // The refusals end even during a call, so that new requests wait for tokens together with those that wait already.
    if (notice === 'free' || notice === 'reset') lease.forgetRefusals()
    if (lease.isCalling) return lease.defer(notice)
    lease.applyNotice(notice)
    const isAsked = notice === 'unknown' || notice === 'reset'
    const isForgotten = isAsked && lease.knowsDay(this.#clock.nowMs())
    const isHolding = notice !== 'free' && lease.isHolding()
    if (isHolding || isForgotten) this.#calls.call(lease, RETURNING)
  }

  /** States the use of all uncertain leases, a bounded number at a time. */
  settleUncertain(): void {
    for (const lease of this.#calls.uncertain) {
      if (this.#settling >= SETTLING_AT_ONCE) return
      if (lease.isCalling) continue
      if (!this.#calls.call(lease, RETURNING)) return
      this.#settling += 1
      void Promise.resolve(lease.inFlight).then(() => {
        this.#settling -= 1
        // After a failure the next sweep tries again; a retry at once would cause a storm of calls.
        if (!lease.isUncertain) this.settleUncertain()
      })
    }
  }

  /** States and returns everything; resolves when all calls are answered. */
  async drain(): Promise<void> {
    this.#stopSweeping()
    const queue = [...new Set([...this.#calls.uncertain, ...this.#holders])].values()
    const worker = async (): Promise<void> => {
      for (const lease of queue) {
        while (lease.isCalling) await lease.inFlight
        if (lease.isUncertain || lease.isHolding()) this.#calls.call(lease, RETURNING)
        await lease.inFlight
      }
    }
    await Promise.all(Array.from({ length: SETTLING_AT_ONCE }, worker))
  }

  /** Returns the tokens of idle clients, and removes leases that hold nothing. */
  #review(): void {
    const nowMs = this.#clock.nowMs()
    let left = Math.ceil(this.#holders.length / SWEEPS_PER_ROUND)
    for (; left > 0 && this.#holders.length > 0; left--) {
      if (this.#reviewed >= this.#holders.length) this.#reviewed = 0
      const lease = this.#holders[this.#reviewed]
      if (lease === undefined) return
      if (!lease.isHolding()) {
        lease.isWatched = false
        // The last holder moves to the free index.
        const last = this.#holders.pop()
        if (last !== undefined && last !== lease) this.#holders[this.#reviewed] = last
        continue
      }
      this.#reviewed += 1
      const dueAfterMs = lease.isWanted ? 0 : IDLE_BEFORE_RETURN_MS
      if (lease.isCalling || nowMs - lease.lastUsedMs < dueAfterMs) continue
      if (!this.#calls.call(lease, RETURNING)) return
    }
  }
}
