/** Counts requests without a valid credential per client address, in this process only, in bounded memory. */
import { hash } from 'node:crypto'
import { MINUTE_MS } from '../quota/protocol.ts'
import { createWindowCounter, type WindowCounter } from './limiters.ts'

export interface AnonymousView {
  readonly limit: number
  readonly remaining: number
  /** Unix time in seconds at which the minute ends; the same for all addresses. */
  readonly resetAtSeconds: number
  /** Whole seconds until then, rounded up, at least 1. */
  readonly resetAfterSeconds: number
  /** From count: this request is over the limit. From look: the next one would be. */
  readonly exceeded: boolean
}

export interface AnonymousLimiter {
  /** Charges one request to the address (any text that names it). Never rejects. */
  count(address: string): Promise<AnonymousView>
  /** Where the address stands, charging nothing. Never rejects. */
  look(address: string): Promise<AnonymousView>
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
export function createAnonymousLimiter(options: {
  readonly perMinute: number
  readonly maxAddresses?: number
  /** Unix time in ms. */
  readonly now?: () => number
}): AnonymousLimiter {
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
    if (addresses < maxAddresses || (await counter.look(address)) !== undefined) return address
    const bucket = Number.parseInt(hash('sha256', address, 'hex').slice(0, 8), 16) % overflowBuckets
    // No address contains a space.
    return `bucket ${bucket}`
  }
  const view = (counted: number, exceeded: boolean, at: { minute: number; nowMs: number }) => {
    const endMs = (at.minute + 1) * MINUTE_MS
    return {
      limit: perMinute,
      remaining: Math.max(perMinute - counted, 0),
      resetAtSeconds: endMs / 1000,
      resetAfterSeconds: Math.ceil((endMs - at.nowMs) / 1000),
      exceeded,
    }
  }

  return {
    count: async (address) => {
      const nowMs = now()
      const at = windowAt(nowMs)
      const key = await keyFor(at, address)
      const seconds = Math.ceil(((at.minute + 1) * MINUTE_MS - nowMs) / 1000)
      const { total, isNew } = await at.counter.add(key, seconds)
      if (isNew) at.addresses++
      return view(total, total > perMinute, { minute: at.minute, nowMs })
    },
    look: async (address) => {
      const nowMs = now()
      const at = windowAt(nowMs)
      const total = (await at.counter.look(await keyFor(at, address))) ?? 0
      return view(total, total >= perMinute, { minute: at.minute, nowMs })
    },
  }
}
