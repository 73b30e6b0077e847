/** The clock of a store that has not said its time: this machine's. */
import { StoreClock } from '../../src/state/store-clock.ts'

export const storeClock = (): StoreClock =>
  new StoreClock({ nowMs: () => performance.now(), epochMs: Date.now })
