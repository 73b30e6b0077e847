/** All state of one gateway in store.file, so that it outlasts the process. */
import { DAY_MS, MINUTE_MS } from '../../config/time.ts'
import type { OwnState } from '../contract.ts'
import { createEmbeddedAuthority, firstKeptDay, MAX_CLIENTS } from '../memory/authority.ts'
import type { EmbeddedAuthority } from '../memory/authority.ts'
import { embeddedState } from '../memory/home.ts'
import { systemTimers } from '../timers.ts'
import { createSqliteBanStore } from './bans.ts'
import { openSqliteFile, type OnFileEvent, type SqliteFile } from './file.ts'
import { Journal, type JournalOptions } from './quota-journal.ts'
import { createRows } from './quota-rows.ts'
import { createSqliteUsageStore } from './usage.ts'

type KeptOptions = Pick<JournalOptions, 'timeoutMs' | 'onFault'> & Partial<JournalOptions>

/**
 * onFileEvent: called where the file was damaged, or is removed or replaced while the gateway runs. Throws an Error with file,
 * fault and remedy when the file cannot be opened.
 */
export function openSqliteState(
  path: string,
  { onFileEvent, ...options }: KeptOptions & { readonly onFileEvent: OnFileEvent },
): OwnState {
  const file = openSqliteFile(path, onFileEvent)
  return embeddedState({
    authority: openEmbeddedAuthority(file, options),
    bans: createSqliteBanStore(file),
    usage: createSqliteUsageStore(file),
  })
}

/**
 * Opens the embedded authority that counts in memory, keeps the counters in the file, and reads them back.
 * A crash forgets nothing that was admitted, but makes the tokens that a client's row counts ahead unusable. close() keeps the
 * true counts, and closes the file. maxClients: so many are in memory at a time.
 */
export function openEmbeddedAuthority(
  file: SqliteFile,
  options: KeptOptions & { readonly maxClients?: number },
): EmbeddedAuthority {
  const { clock = { epochMs: () => Date.now() }, maxClients = MAX_CLIENTS } = options
  const rows = createRows(file)
  const nowMs = clock.epochMs()
  const now = { minuteIndex: Math.floor(nowMs / MINUTE_MS), dayIndex: Math.floor(nowMs / DAY_MS) }
  const restored = rows.load(now, firstKeptDay(nowMs), maxClients)
  const defaults = { timers: systemTimers, onRecovered: () => undefined }
  const journal = new Journal({ ...defaults, ...options, rows, clock })
  return createEmbeddedAuthority({ clock, maxClients, keeper: { journal, rows, restored } })
}
