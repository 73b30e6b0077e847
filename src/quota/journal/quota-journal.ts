/** Where the embedded authority's counters are kept over a restart: the seam. */
import type { KeptCounters } from './kept-counters.ts'

/** A rejected call means that nothing of it was kept; its Error says fault and remedy. */
export interface QuotaJournal {
  /** Everything kept of days from this index on. Blocks until it is there: for starts only. */
  load(fromDayIndex: number): Iterable<KeptCounters>
  save(counters: readonly KeptCounters[]): Promise<void>
  remove(clients: readonly string[]): Promise<void>
  removeDaysBefore(dayIndex: number): Promise<void>
  close(): Promise<void>
}
