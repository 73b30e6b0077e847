/** Keeps the counters of the embedded authority in store.file. */
import type { KeptCounters } from './kept-counters.ts'
import type { QuotaJournal } from './quota-journal.ts'
import { openSqliteFile } from '../../sqlite/file.ts'

const load = `SELECT client, minute_index AS minuteIndex, minute_taken AS minuteTaken, day_index AS dayIndex, day_taken AS dayTaken
  FROM quota WHERE day_index >= ?`
const save = `INSERT INTO quota (client, minute_index, minute_taken, day_index, day_taken) VALUES (?, ?, ?, ?, ?)
  ON CONFLICT (client) DO UPDATE SET minute_index = excluded.minute_index, minute_taken = excluded.minute_taken,
    day_index = excluded.day_index, day_taken = excluded.day_taken`
const remove = 'DELETE FROM quota WHERE client = ?'
const removeDaysBefore = 'DELETE FROM quota WHERE day_index < ?'

/** Opens or joins the file; see openSqliteFile. Client ids are well-formed strings. Throws an Error with file, fault and remedy. */
export function openSqliteQuotaJournal(
  file: string,
  onDamaged: (keptAs: string) => void,
): QuotaJournal {
  const store = openSqliteFile(file, onDamaged)
  return {
    // Types and ranges are the table's own constraints.
    load: (fromDayIndex) =>
      store.readNow(load, fromDayIndex) as readonly unknown[] as readonly KeptCounters[],
    save: (counters) => {
      const column = (value: (kept: KeptCounters) => number): Float64Array =>
        Float64Array.from(counters, value)
      return store.write(save, [
        counters.map(({ client }) => client),
        column(({ minuteIndex }) => minuteIndex),
        column(({ minuteTaken }) => minuteTaken),
        column(({ dayIndex }) => dayIndex),
        column(({ dayTaken }) => dayTaken),
      ])
    },
    remove: (clients) => store.write(remove, [clients]),
    removeDaysBefore: (dayIndex) => store.write(removeDaysBefore, [Float64Array.of(dayIndex)]),
    close: () => store.close(),
  }
}
