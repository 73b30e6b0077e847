/** The embedded authority that remembers: counted in memory, kept in store.file, read back at the next start. */
import { SqliteJournal } from '../journal/sqlite-journal.ts'
import { createMemoryAuthority, type MemoryAuthority } from './memory.ts'
import { firstKeptDay } from '../journal/kept-counters.ts'
import { systemTimers, type Timers } from '../timers.ts'
import { UnsavedClients } from '../journal/unsaved-clients.ts'
import { WriteBehind } from '../journal/write-behind.ts'

/**
 * file: store.file; undefined keeps nothing over a restart.
 * clock.epochMs: Unix time in ms.
 * onDamaged: called with the new name of a damaged file that was set aside.
 * onFault: counters can no longer be kept; counting goes on in memory, and writing is tried again until onRecovered.
 * A crash forgets what was admitted in the last second; close() keeps everything.
 * Throws an Error with file, fault and remedy when the file cannot be opened.
 */
export function openEmbeddedAuthority({
  file,
  clock,
  onDamaged,
  onFault,
  onRecovered = () => undefined,
  timers = systemTimers,
  maxClients,
}: {
  file: string | undefined
  clock: { epochMs(): number }
  onDamaged: (keptAs: string) => void
  onFault: (error: unknown) => void
  onRecovered?: () => void
  timers?: Pick<Timers, 'every'>
  maxClients?: number
}): MemoryAuthority {
  if (file === undefined) return createMemoryAuthority({ clock, maxClients })
  const journal = new SqliteJournal(file, onDamaged)
  const unsaved = new UnsavedClients()
  const restored = journal.load(firstKeptDay(clock.epochMs()))
  const authority = createMemoryAuthority({ clock, restored, unsaved, maxClients })
  const writing = new WriteBehind({ journal, unsaved, clock, timers, onFault, onRecovered })
  return {
    take: authority.take,
    beat: authority.beat,
    get size() {
      return authority.size
    },
    get unsaved() {
      return writing.unsaved
    },
    close: () => writing.close(),
  }
}
