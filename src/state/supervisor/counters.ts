/** Counters that all workers of a machine share: strikes, and requests without a credential. The supervisor keeps them. */

import type { IpcCalls } from './calls.ts'
import { MINUTE_MS } from '../../config/time.ts'
import type { AddressCount, AddressCounter, CountedAddress } from '../memory/addresses.ts'
import type { Count, Counter } from '../contract.ts'

/** The calls of a worker's counters to the supervisor. */
export interface CounterCalls {
  /** Adds strikes to a key for all workers; the count begins anew once the key has earned a ban. */
  addStrikes(strikes: { readonly keyId: string; readonly points: number }): Count
  /** Adds requests without a valid credential to an address. */
  countAddress(count: Omit<AddressCount, 'limit'>): CountedAddress
}

/** Counts strikes over all workers; while the supervisor is silent, `own` counts for this worker alone. */
export function createSharedStrikes(calls: IpcCalls<CounterCalls>, own: Counter): Counter {
  return {
    isShared: true,
    add: (keyId, points, nowMs) =>
      calls.available
        ? calls.call('addStrikes', { keyId, points }).catch(() => own.add(keyId, points, nowMs))
        : own.add(keyId, points, nowMs),
    // The supervisor itself resets the count once a ban is earned, so that no strike in between is lost.
    reset: (keyId) => own.reset(keyId),
    useTime: (withinMs) => own.useTime(withinMs),
  }
}

interface Waiting {
  readonly points: number
  resolve(counted: CountedAddress): void
}

/** Questions a second and worker that anonymous requests may cost the supervisor. */
const ASKED_PER_SECOND = 5_000
const MAX_EXHAUSTED = 100_000

/**
 * Counts requests of addresses over all workers. Anonymous callers must not be able to wear out the supervisor: an address at
 * its limit is answered from memory until the window ends, the requests of one address during a question share the next one,
 * and beyond a number of questions a second `own` counts the others, for this worker alone.
 */
export function createSharedAddressCounter(options: {
  readonly calls: IpcCalls<CounterCalls>
  readonly own: AddressCounter
  readonly now?: () => number
}): AddressCounter {
  const { calls, own, now = Date.now } = options
  const underway = new Map<string, Waiting[]>()
  let exhausted = { window: 0, totals: new Map<string, number>() }
  let budget = { second: 0, left: ASKED_PER_SECOND }

  const mayAsk = (): boolean => {
    const second = Math.floor(now() / 1000)
    if (budget.second !== second) budget = { second, left: ASKED_PER_SECOND }
    return calls.available && budget.left-- > 0
  }
  const ask = async ({ address, points, limit }: AddressCount): Promise<CountedAddress> => {
    const asked = mayAsk() ? calls.call('countAddress', { address, points }) : undefined
    const counted = await asked?.catch(() => undefined)
    if (counted === undefined) return own.add({ address, points, limit })
    const { window, total } = counted
    if (total >= limit && window >= exhausted.window) {
      if (window > exhausted.window) exhausted = { window, totals: new Map() }
      if (exhausted.totals.size < MAX_EXHAUSTED) exhausted.totals.set(address, total)
    }
    return counted
  }
  const askFor = async (address: string, limit: number, first: Waiting): Promise<void> => {
    let batch: readonly Waiting[] = [first]
    while (batch.length > 0) {
      const next: Waiting[] = []
      underway.set(address, next)
      const points = batch.reduce((sum, waiting) => sum + waiting.points, 0)
      const { window, total } = await ask({ address, points, limit })
      let counted = total - points
      for (const waiting of batch) waiting.resolve({ window, total: (counted += waiting.points) })
      batch = next
    }
    underway.delete(address)
  }

  return {
    add: ({ address, points, limit }) => {
      const window = Math.floor(now() / MINUTE_MS)
      const known = exhausted.window === window ? exhausted.totals.get(address) : undefined
      // The answer does not hold if the limit was raised meanwhile.
      if (known !== undefined && known >= limit)
        return Promise.resolve({ window, total: known + points })
      return new Promise((resolve) => {
        const waiting = { points, resolve }
        const others = underway.get(address)
        if (others === undefined) void askFor(address, limit, waiting)
        else others.push(waiting)
      })
    },
  }
}
