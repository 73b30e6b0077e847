/** Bounds what the false signatures of an address cost: a check takes up to a millisecond, and making up a signature takes nothing. */

/** Part of one thread's time that the false signatures of one address may take. */
const SHARE = 0.1
/** Time that they may take at once, where there were none for a while. */
const AT_ONCE_MS = 100
/** The oldest is forgotten. */
const MAX_ADDRESSES = 10_000
const MAX_PROVEN = 10_000

/** Who a token comes from: an address, and the client that the token names. */
export interface Sender {
  readonly address: string
  readonly clientId: string
}

export class CheckBudget {
  /** When each address, at its share, will have made up for its false signatures. */
  readonly #settledMs = new Map<string, number>()
  /** Clients whose latest token from an address was good. */
  readonly #proven = new Map<string, true>()

  /**
   * Whether the address is within its share, or the client has proven a token there before: so it gets its next one checked beside
   * false ones of its neighbours, until one of those names it. Times are of one clock that never goes back.
   */
  hasRoom(sender: Sender, nowMs: number): boolean {
    const settledMs = this.#settledMs.get(sender.address)
    if (settledMs === undefined || settledMs - nowMs <= AT_ONCE_MS / SHARE) return true
    return this.#proven.has(nameOf(sender))
  }

  checked(sender: Sender, isGood: boolean, tookMs: number, nowMs: number): void {
    if (isGood) return keepLatest(this.#proven, nameOf(sender), true, MAX_PROVEN)
    this.#proven.delete(nameOf(sender))
    const sinceMs = Math.max(this.#settledMs.get(sender.address) ?? nowMs, nowMs)
    keepLatest(this.#settledMs, sender.address, sinceMs + tookMs / SHARE, MAX_ADDRESSES)
  }
}

/** No address contains a space. */
const nameOf = ({ address, clientId }: Sender): string => `${address} ${clientId}`

function keepLatest<Value>(
  kept: Map<string, Value>,
  key: string,
  value: Value,
  most: number,
): void {
  kept.delete(key)
  kept.set(key, value)
  if (kept.size <= most) return
  const [oldest = ''] = kept.keys()
  kept.delete(oldest)
}
