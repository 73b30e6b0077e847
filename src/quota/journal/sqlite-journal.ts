/** Keeps the counters of the embedded authority in store.file. */
import type { KeptCounters } from './kept-counters.ts'
import type { CountedClient } from './unsaved-clients.ts'
import { openSqliteFile, type SqliteFile } from '../../sqlite/file.ts'

const load = `SELECT client, minute_index AS minuteIndex, minute_taken AS minuteTaken, day_index AS dayIndex, day_taken AS dayTaken
  FROM quota WHERE day_index >= ?`
const save = `INSERT INTO quota (client, minute_index, minute_taken, day_index, day_taken) VALUES (?, ?, ?, ?, ?)
  ON CONFLICT (client) DO UPDATE SET minute_index = excluded.minute_index, minute_taken = excluded.minute_taken,
    day_index = excluded.day_index, day_taken = excluded.day_taken`
const remove = 'DELETE FROM quota WHERE client = ?'
const removeDaysBefore = 'DELETE FROM quota WHERE day_index < ?'

/** A rejected call means that nothing of it was kept; its Error says fault and remedy. Client ids are well-formed strings. */
export class SqliteJournal {
  readonly #store: SqliteFile

  /** Opens or joins the file; see openSqliteFile. Throws an Error with file, fault and remedy. */
  constructor(file: string, onDamaged: (keptAs: string) => void) {
    this.#store = openSqliteFile(file, onDamaged)
  }

  /** Everything kept of days from this index on. Blocks until it is there: for starts only. */
  load(fromDayIndex: number): readonly KeptCounters[] {
    // Types and ranges are the table's own constraints.
    return this.#store.readNow(load, fromDayIndex) as readonly unknown[] as readonly KeptCounters[]
  }

  save(clients: readonly CountedClient[]): Promise<void> {
    const column = (counter: 'minuteIndex' | 'minuteTaken' | 'dayIndex' | 'dayTaken') =>
      Float64Array.from(clients, ({ state }) => state[counter])
    return this.#store.write(save, [
      clients.map(({ id }) => id),
      column('minuteIndex'),
      column('minuteTaken'),
      column('dayIndex'),
      column('dayTaken'),
    ])
  }

  remove(clients: readonly string[]): Promise<void> {
    return this.#store.write(remove, [clients])
  }

  removeDaysBefore(dayIndex: number): Promise<void> {
    return this.#store.write(removeDaysBefore, [Float64Array.of(dayIndex)])
  }

  close(): Promise<void> {
    return this.#store.close()
  }
}
