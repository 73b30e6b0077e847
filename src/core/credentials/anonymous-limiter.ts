/** Counts requests without a valid credential per client address, and says where an address stands. */
import { MINUTE_MS } from '../../config/time.ts'
import type { WindowView } from '../quota/decision.ts'
import type { AddressCounter } from '../../state/memory/addresses.ts'
import { whenKnown } from '../rules/when-known.ts'

/** The running minute of an address; it ends at the same time for all of them. */
export interface AnonymousView extends WindowView {
  /** count(): this request is over the limit. peek(): the next one would be. */
  readonly exceeded: boolean
}

export type AnonymousLimiter = ReturnType<typeof createAnonymousLimiter>

export function createAnonymousLimiter(options: {
  readonly perMinute: number
  readonly counter: AddressCounter
  /** Unix time in ms. */
  readonly now?: () => number
}) {
  const { perMinute, counter, now = Date.now } = options
  const add = (address: string, points: 0 | 1) =>
    whenKnown(counter.add({ address, points, limit: perMinute }), ({ window, total }) => {
      const endMs = (window + 1) * MINUTE_MS
      const view: AnonymousView = {
        limit: perMinute,
        remaining: Math.max(perMinute - total, 0),
        resetAtSeconds: endMs / 1000,
        // The minute may have ended on the way from the counter.
        resetAfterSeconds: Math.max(Math.ceil((endMs - now()) / 1000), 1),
        exceeded: points === 1 ? total > perMinute : total >= perMinute,
      }
      return view
    })
  return {
    /** Charges one request to the address (any text that names it). Never throws or rejects. */
    count: (address: string) => add(address, 1),
    /** Returns where the address stands, charging nothing. Never throws or rejects. */
    peek: (address: string) => add(address, 0),
  }
}
