/** Counts requests without a valid credential per client address, in bounded memory, and says where an address stands. */
import { hash } from 'node:crypto'
import { MINUTE_MS } from '../rules/time.ts'
import type { WindowView } from '../rules/quota-headers.ts'
import { whenKnown } from '../rules/when-known.ts'

/** Of the running minute, which ends at the same moment for all addresses. */
export interface AnonymousView extends WindowView {
  /** From count: this request is over the limit. From peek: the next one would be. */
  readonly exceeded: boolean
}

export interface AnonymousLimiter {
  /** Charges one request to the address (any text that names it). Never throws or rejects. */
  count(address: string): AnonymousView | Promise<AnonymousView>
  /** Where the address stands, charging nothing. Never throws or rejects. */
  peek(address: string): AnonymousView | Promise<AnonymousView>
}

export interface AddressCount {
  readonly address: string
  /** 0 looks. */
  readonly points: number
  /** At this total or above it nobody needs to know more exactly. */
  readonly limit: number
}

export interface CountedAddress {
  /** Number of the window of Unix time that was counted in. */
  readonly window: number
  readonly total: number
}

/** The counts themselves: of this process, which answers at once, or of all workers of the machine. */
export interface AddressCounter {
  /** Adds the points, 0 or more, and gives the total of the running window. Never throws or rejects. */
  add(count: AddressCount): CountedAddress | Promise<CountedAddress>
}

const MAX_ADDRESSES = 100_000
/** Shared by the addresses that come after MAX_ADDRESSES others in a window. */
const OVERFLOW_BUCKETS = 1024

/**
 * Windows are minutes of UTC, so that Reset is the same number for every answer of a window.
 * Memory: 7 MB of heap at 100,000 addresses in one window; past MAX_ADDRESSES further ones share counts, so that
 * a flood of addresses makes unknown callers see 429 instead of 401 earlier, and nothing else.
 */
export function createAddressCounter({ now = Date.now } = {}) {
  let countedWindow: number | undefined
  let totals = new Map<string, number>()
  const keyFor = (address: string): string => {
    if (totals.size < MAX_ADDRESSES || totals.has(address)) return address
    const bucket =
      Number.parseInt(hash('sha256', address, 'hex').slice(0, 8), 16) % OVERFLOW_BUCKETS
    // No address contains a space.
    return `bucket ${bucket}`
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

export function createAnonymousLimiter(options: {
  readonly perMinute: number
  readonly counter: AddressCounter
  /** Unix time in ms. */
  readonly now?: () => number
}): AnonymousLimiter {
  const { perMinute, counter, now = Date.now } = options
  const view = ({ window, total }: CountedAddress, exceeded: boolean): AnonymousView => {
    const endMs = (window + 1) * MINUTE_MS
    return {
      limit: perMinute,
      remaining: Math.max(perMinute - total, 0),
      resetAtSeconds: endMs / 1000,
      // The minute may have ended on the way from the counter.
      resetAfterSeconds: Math.max(Math.ceil((endMs - now()) / 1000), 1),
      exceeded,
    }
  }
  const charged = (counted: CountedAddress) => view(counted, counted.total > perMinute)
  const seen = (counted: CountedAddress) => view(counted, counted.total >= perMinute)
  return {
    count: (address) => whenKnown(counter.add({ address, points: 1, limit: perMinute }), charged),
    peek: (address) => whenKnown(counter.add({ address, points: 0, limit: perMinute }), seen),
  }
}
