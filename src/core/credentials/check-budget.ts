/** Bounds how many false signatures of an address are checked: a check takes up to a millisecond, and making up a signature takes nothing. */
import { keepLatest } from '../../state/memory/recency-table.ts'

/** Time in which one more false signature of an address may be checked. */
const EACH_MS = 10
/** How many false signatures may come at once after a pause. */
const AT_ONCE = 100
/** Addresses remembered; the oldest is forgotten. */
const MAX_ADDRESSES = 10_000
const MAX_PROVEN = 10_000

/** Who a token comes from: an address, and the client that the token names. */
export interface Sender {
  readonly address: string
  readonly clientId: string
}

export class CheckBudget {
  /** Time at which each address, at its rate, will have made up for its false signatures and those being checked. */
  readonly #settledMs = new Map<string, number>()
  /** Clients whose latest token from an address was good. */
  readonly #proven = new Map<string, true>()

  /**
   * Whether the address is within its rate, or the client has proven a token there before. So a client gets its next token checked
   * despite false ones of its neighbours, until one of those names it. Times are of one clock that never goes back.
   */
  hasRoom(sender: Sender, nowMs: number): boolean {
    const settledMs = this.#settledMs.get(sender.address)
    if (settledMs === undefined || settledMs - nowMs <= (AT_ONCE - 1) * EACH_MS) return true
    return this.#proven.has(nameOf(sender))
  }

  /** Counts a signature as false before it is checked, so that those which come meanwhile do not exceed the rate. */
  began({ address }: Sender, nowMs: number): void {
    const sinceMs = Math.max(this.#settledMs.get(address) ?? nowMs, nowMs)
    keepLatest(this.#settledMs, address, sinceMs + EACH_MS, MAX_ADDRESSES)
  }

  /** isGood is undefined when the signature was not checked after all. */
  ended(sender: Sender, isGood: boolean | undefined): void {
    const { address } = sender
    if (isGood === false) return void this.#proven.delete(nameOf(sender))
    if (isGood) keepLatest(this.#proven, nameOf(sender), true, MAX_PROVEN)
    const settledMs = this.#settledMs.get(address)
    if (settledMs !== undefined) this.#settledMs.set(address, settledMs - EACH_MS)
  }
}

/** No address contains a space. */
const nameOf = ({ address, clientId }: Sender): string => `${address} ${clientId}`
