/** Rows that requests wait for: for a bounded time, and a bounded number. */
import type { Rows } from './quota-rows.ts'
import { StoreUnavailable } from '../store-unavailable.ts'

/** Whoever has to wait longer for the disk is told that the store is away. */
const FIND_TIMEOUT_MS = 150
/** More could not be found in that time, and a disk that hangs is to hold no more calls. */
const FINDS_AT_MOST = 4_000

/** What cannot be read soon is away. */
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
