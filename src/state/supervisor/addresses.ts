/** Requests of addresses without a credential, counted over all workers of a machine. The supervisor keeps the counts. */
import { MINUTE_MS } from '../../config/time.ts'
import type { AddressCounter } from '../memory/addresses.ts'
import type { IpcCalls } from '../calls.ts'
import type { CounterCalls } from './home.ts'

/** Questions a second and worker that anonymous requests may cost the supervisor. */
const ASKED_PER_SECOND = 5_000
const MAX_EXHAUSTED = 100_000

/**
 * Counts requests of addresses over all workers. Anonymous callers must not be able to wear out the supervisor: an address at
 * its limit is answered from memory until the window ends, and beyond a number of questions a second `own` counts the others,
 * for this worker alone. Questions asked at once travel as one message.
 */
export function createSharedAddressCounter(options: {
  readonly calls: IpcCalls<CounterCalls>
  readonly own: AddressCounter
  readonly now?: () => number
}): AddressCounter {
  const { calls, own, now = Date.now } = options
  let exhausted = { window: 0, totals: new Map<string, number>() }
  let budget = { second: 0, left: ASKED_PER_SECOND }

  const mayAsk = (): boolean => {
    const second = Math.floor(now() / 1000)
    if (budget.second !== second) budget = { second, left: ASKED_PER_SECOND }
    return calls.available && budget.left-- > 0
  }
  return {
    add: async ({ address, points, limit }) => {
      const current = Math.floor(now() / MINUTE_MS)
      const known = exhausted.window === current ? exhausted.totals.get(address) : undefined
      // The answer does not hold if the limit was raised meanwhile.
      if (known !== undefined && known >= limit) return { window: current, total: known + points }
      const asked = mayAsk() ? calls.call('countAddress', { address, points }) : undefined
      const counted = await asked?.catch(() => undefined)
      if (counted === undefined) return own.add({ address, points, limit })
      const { window, total } = counted
      if (total >= limit && window >= exhausted.window) {
        if (window > exhausted.window) exhausted = { window, totals: new Map() }
        if (exhausted.totals.size < MAX_EXHAUSTED) exhausted.totals.set(address, total)
      }
      return counted
    },
  }
}
