/** Counts a client's refusals in the last five minutes, and since when they go on. Time is an argument, in Unix seconds. */
import type { TallyRow } from '../../core/record/tally.ts'
import { BACK_SECONDS } from './seconds.ts'

const SLOT_SECONDS = 15
const SLOTS = 20
/** Seconds without a refusal after which a client no longer counts as refused. */
const NOW_SECONDS = 10

export type RefusedBy = 'minute' | 'day' | 'ban'

export class RecentRefusals {
  /** Cause in the last second with refusals; if several, the one that lasts longest. Written by add, as are the two below. */
  by: RefusedBy = 'minute'
  /** First and last second of the current run of refusals. */
  since = -Infinity
  last = -Infinity
  readonly #slots = new Slots(SLOTS, SLOT_SECONDS)
  /** One slot more than is measured, as the current second has no counts yet. */
  readonly #seconds = new Slots(NOW_SECONDS + 1, 1)

  /** Adds one second of a key of the client. */
  add(at: number, { refusedMinute, refusedDay, refusedBan }: TallyRow): void {
    const count = refusedMinute + refusedDay + refusedBan
    if (count === 0) return
    const by = refusedBan > 0 ? 'ban' : refusedDay > 0 ? 'day' : 'minute'
    if (!this.isNow(at)) this.since = at
    // A second has one row for each key of the client.
    if (at !== this.last || ranks[by] > ranks[this.by]) this.by = by
    this.last = at
    this.#slots.add(at, count)
    this.#seconds.add(at, count)
  }

  count(now: number): number {
    return this.#slots.sum(now)
  }

  perSecond(now: number): number {
    return this.#seconds.sum(now) / NOW_SECONDS
  }

  isNow(now: number): boolean {
    return Math.abs(now - this.last) <= NOW_SECONDS
  }
}

const ranks = { minute: 0, day: 1, ban: 2 }

/** Ring of counts, in slots of `seconds` each. */
class Slots {
  readonly #counts: Uint32Array
  readonly #seconds: number
  /** The latest second. Written by #moveTo. */
  #at = -Infinity

  constructor(slots: number, seconds: number) {
    this.#counts = new Uint32Array(slots)
    this.#seconds = seconds
  }

  add(at: number, count: number): void {
    this.#moveTo(at)
    const slot = this.#slotOf(at) % this.#counts.length
    this.#counts[slot] = (this.#counts[slot] ?? 0) + count
  }

  sum(now: number): number {
    this.#moveTo(now)
    return this.#counts.reduce((sum, count) => sum + count, 0)
  }

  #moveTo(at: number): void {
    if (at < this.#at - BACK_SECONDS) this.#at = -Infinity
    const slots = this.#counts.length
    if (at - this.#at >= slots * this.#seconds) this.#counts.fill(0)
    else
      for (let slot = this.#slotOf(this.#at) + 1; slot <= this.#slotOf(at); slot++)
        this.#counts[slot % slots] = 0
    this.#at = Math.max(this.#at, at)
  }

  #slotOf(at: number): number {
    return Math.floor(at / this.#seconds)
  }
}
