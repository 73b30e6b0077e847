/** Counts requests per client address and minute, in bounded memory. */
import { hashText } from '../../config/clients/index-slots.ts'
import { MINUTE_MS } from '../../config/time.ts'

export interface AddressCount {
  readonly address: string
  /** 0 reads the count only. */
  readonly points: number
  /** The exact count does not matter at this total or above. */
  readonly limit: number
}

export interface CountedAddress {
  /** Number of the window of Unix time in which it was counted. */
  readonly window: number
  readonly total: number
}

/** Counts for this process, which answers at once, or for all workers of the machine. */
export interface AddressCounter {
  /** Adds the points, 0 or more, and returns the total of the running window. Never throws or rejects. */
  add(count: AddressCount): CountedAddress | Promise<CountedAddress>
}

/** So many take 7 MB of heap. */
const MAX_ADDRESSES = 100_000
/** Shared by the addresses that come after those: in a flood unknown callers see 429 instead of 401 earlier, and nothing else. */
const OVERFLOW_BUCKETS = 1024

/** Windows are minutes of UTC, so that Reset is the same number for every answer of a window. */
export function createAddressCounter({ now = Date.now } = {}) {
  let countedWindow: number | undefined
  let totals = new Map<string, number>()
  const keyFor = (address: string): string => {
    if (totals.size < MAX_ADDRESSES || totals.has(address)) return address
    // No address contains a space.
    return `bucket ${hashText(address) % OVERFLOW_BUCKETS}`
  }
  return {
    add: ({ address, points }: Omit<AddressCount, 'limit'>): CountedAddress => {
      const window = Math.floor(now() / MINUTE_MS)
      if (window !== countedWindow) {
        countedWindow = window
        totals = new Map()
      }
      const key = keyFor(address)
      const total = (totals.get(key) ?? 0) + points
      if (points > 0) totals.set(key, total)
      return { window, total }
    },
  }
}
