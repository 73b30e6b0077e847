/** Reads rows that requests wait for, in bounded time and number. */
import type { Rows } from './quota-rows.ts'
import { StoreUnavailable } from '../store-unavailable.ts'

/** A read that takes longer fails with StoreUnavailable. */
const FIND_TIMEOUT_MS = 150
/** No more rows could be read in that time, and a disk that hangs must not accumulate calls. */
const FINDS_AT_MOST = 4_000

/** Rejects with StoreUnavailable where a row cannot be read in time. */
export function boundedFind(rows: Pick<Rows, 'find'>): Rows['find'] {
  let finding = 0
  return async (id) => {
    if (finding >= FINDS_AT_MOST) throw new StoreUnavailable('timeout')
    finding += 1
    const late = Promise.withResolvers<never>()
    const giveUp = (): void => late.reject(new StoreUnavailable('timeout'))
    const found = rows.find(id).finally(() => (finding -= 1))
    // After a stall of the event loop timers run before messages are read.
    const timer = setTimeout(() => void setImmediate(giveUp), FIND_TIMEOUT_MS)
    try {
      return await Promise.race([found, late.promise])
    } catch (error) {
      throw error instanceof StoreUnavailable ? error : new StoreUnavailable('error', error)
    } finally {
      clearTimeout(timer)
    }
  }
}
