/** Requests of addresses without a credential, counted over all workers of a machine. The supervisor keeps the counts. */
import type { AddressCounter, CountedAddress, createAddressCounter } from '../memory/addresses.ts'
import type { IpcCalls } from '../calls.ts'
import type { CounterCalls } from './home.ts'

/** Questions a second and worker that anonymous requests may cost the supervisor. */
const ASKED_PER_SECOND = 5_000

/**
 * Counts requests of addresses over all workers. Anonymous callers must not be able to wear out the supervisor: an address at
 * its limit is answered by `own` until the window ends, and so are all others beyond a number of questions a second, from what
 * this worker knows alone. Questions asked at once travel as one message.
 */
export function createSharedAddressCounter(options: {
  readonly calls: IpcCalls<CounterCalls>
  readonly own: ReturnType<typeof createAddressCounter>
  readonly now?: () => number
}): AddressCounter {
  const { calls, own, now = Date.now } = options
  let budget = { second: 0, left: ASKED_PER_SECOND }
  const mayAsk = (): boolean => {
    const second = Math.floor(now() / 1000)
    if (budget.second !== second) budget = { second, left: ASKED_PER_SECOND }
    return calls.available && budget.left-- > 0
  }
  return {
    add: async ({ address, points, limit }) => {
      const known = (): CountedAddress => own.add({ address, points: 0 })
      const isAsked = known().total < limit && mayAsk()
      const asked = isAsked ? calls.call('countAddress', { address, points }) : undefined
      const counted = await asked?.catch(() => undefined)
      if (counted === undefined) return own.add({ address, points })
      const { window, total } = known()
      if (window === counted.window && total < counted.total)
        own.add({ address, points: counted.total - total })
      return counted
    },
  }
}
