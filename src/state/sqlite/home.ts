/** All state of one gateway in store.file, so that it outlasts the process. */
import type { OwnState } from '../contract.ts'
import { createEmbeddedAuthority, MAX_CLIENTS } from '../memory/authority.ts'
import { embeddedState } from '../memory/home.ts'
import { systemTimers } from '../timers.ts'
import { createSqliteBanStore } from './bans.ts'
import { openSqliteFile, type OnFileEvent, type SqliteFile } from './file.ts'
import { createRows, Journal, type JournalOptions } from './quota-journal.ts'
import { createSqliteUsageStore } from './usage.ts'

type KeptOptions = Pick<JournalOptions, 'timeoutMs' | 'onFault'> & Partial<JournalOptions>

/**
 * onFileEvent: called where the file was damaged, or is removed while the gateway runs. ready() rejects with an
 * Error of file, fault and remedy when the file cannot be opened.
 */
export function openSqliteState(
  path: string,
  { onFileEvent, ...options }: KeptOptions & { readonly onFileEvent: OnFileEvent },
): OwnState {
  const file = openSqliteFile(path, onFileEvent)
  const { authority, ready } = openEmbeddedAuthority(file, options)
  const [bans, usage] = [createSqliteBanStore(file), createSqliteUsageStore(file)]
  return { ...embeddedState({ authority, bans, usage }), ready }
}

/**
 * Opens the embedded authority that counts in memory and keeps the counters in the file. ready() reads them back, which has to be
 * done before the first call.
 * A crash forgets nothing that was admitted, but makes the tokens that a client's row counts ahead unusable. close() keeps the
 * true counts, and closes the file. maxClients: so many are in memory at a time.
 */
export function openEmbeddedAuthority(
  file: SqliteFile,
  options: KeptOptions & { readonly maxClients?: number },
) {
  const { clock = { epochMs: () => Date.now() }, maxClients = MAX_CLIENTS } = options
  const rows = createRows(file)
  const defaults = { timers: systemTimers, onRecovered: () => undefined }
  const keeper = new Journal({ ...defaults, ...options, rows, clock })
  const authority = createEmbeddedAuthority({ clock, maxClients, keeper })
  const ready = async (): Promise<void> => {
    authority.restore(await rows.load(clock.epochMs(), maxClients))
    keeper.begin()
  }
  return { authority, ready }
}
