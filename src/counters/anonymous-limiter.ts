/** Counts requests without a valid credential per client address, in bounded memory, and says where an address stands. */
import { hash } from 'node:crypto'
import { MINUTE_MS } from '../quota/protocol.ts'
import { createWindowCounter, type WindowCounter } from './counter.ts'

export interface AnonymousView {
  readonly limit: number
  readonly remaining: number
  /** Unix time in seconds at which the minute ends; the same for all addresses. */
  readonly resetAtSeconds: number
  /** Whole seconds until then, rounded up, at least 1. */
  readonly resetAfterSeconds: number
  /** From count: this request is over the limit. From peek: the next one would be. */
  readonly exceeded: boolean
}

export interface AnonymousLimiter {
  /** Charges one request to the address (any text that names it). Never rejects. */
  count(address: string): Promise<AnonymousView>
  /** Where the address stands, charging nothing. Never rejects. */
  peek(address: string): Promise<AnonymousView>
}

export interface AddressCount {
  readonly address: string
  /** 0 looks. */
  readonly points: number
}

export interface CountedAddress {
  /** Minute of Unix time that was counted in. */
  readonly minute: number
  readonly total: number
}

/** The counts themselves: of this process, or of all workers of the machine. */
export interface AddressCounter {
  /** Adds the points, 0 or more, and resolves with the total of the running minute. Never rejects. */
  add(count: AddressCount): Promise<CountedAddress>
}

interface Window {
  readonly minute: number
  readonly counter: WindowCounter
  addresses: number
}

/** Shared by the addresses that come after maxAddresses others in a minute. */
const overflowBuckets = 1024

/**
 * Windows are the minutes of UTC, so that Reset is the same number for every answer of a minute.
 * Memory: 41 MB of heap at 100,000 addresses in one minute, mostly a timer each; past maxAddresses further ones share
 * counts, so that a flood of addresses makes unknown callers see 429 instead of 401 earlier, and nothing else.
 */
export function createAddressCounter(options: {
  readonly perMinute: number
  readonly maxAddresses?: number
  /** Unix time in ms. */
  readonly now?: () => number
}): AddressCounter {
  const { perMinute, maxAddresses = 100_000, now = Date.now } = options
  let window: Window = { minute: -1, counter: createWindowCounter(perMinute), addresses: 0 }

  const windowAt = (nowMs: number): Window => {
    const minute = Math.floor(nowMs / MINUTE_MS)
    // A new counter each minute, as the library's records would end some ms before or after the minute does.
    if (window.minute !== minute)
      window = { minute, counter: createWindowCounter(perMinute), addresses: 0 }
    return window
  }
  const keyFor = async ({ counter, addresses }: Window, address: string): Promise<string> => {
    if (addresses < maxAddresses || (await counter.peek(address)) !== undefined) return address
    const bucket = Number.parseInt(hash('sha256', address, 'hex').slice(0, 8), 16) % overflowBuckets
    // No address contains a space.
    return `bucket ${bucket}`
  }

  return {
    add: async ({ address, points }) => {
      const nowMs = now()
      const at = windowAt(nowMs)
      const { minute } = at
      const key = await keyFor(at, address)
      if (points === 0) return { minute, total: (await at.counter.peek(key)) ?? 0 }
      const seconds = Math.ceil(((minute + 1) * MINUTE_MS - nowMs) / 1000)
      const { total, isNew } = await at.counter.add({ key, points, seconds })
      if (isNew) at.addresses++
      return { minute, total }
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
  const view = ({ minute, total }: CountedAddress, exceeded: boolean): AnonymousView => {
    const endMs = (minute + 1) * MINUTE_MS
    return {
      limit: perMinute,
      remaining: Math.max(perMinute - total, 0),
      resetAtSeconds: endMs / 1000,
      // The minute may have ended on the way from the counter.
      resetAfterSeconds: Math.max(Math.ceil((endMs - now()) / 1000), 1),
      exceeded,
    }
  }
  return {
    count: async (address) => {
      const counted = await counter.add({ address, points: 1 })
      return view(counted, counted.total > perMinute)
    },
    peek: async (address) => {
      const counted = await counter.add({ address, points: 0 })
      return view(counted, counted.total >= perMinute)
    },
  }
}
