/** All state of one gateway in store.file, so that it outlasts the process. */
import { createEmbeddedAuthority, MAX_CLIENTS } from '../memory/authority.ts'
import { embeddedState } from '../memory/home.ts'
import { systemTimers } from '../timers.ts'
import { createSqliteBanStore } from './bans.ts'
import type { SqliteFile } from './file.ts'
import { createRows, Journal, type JournalOptions } from './quota-journal.ts'
import { createSqliteUsageStore } from './usage.ts'

interface FileStateOptions
  extends
    Pick<JournalOptions, 'timeoutMs' | 'onFault' | 'onRecovered'>,
    Partial<Pick<JournalOptions, 'clock' | 'timers'>> {
  /** So many clients are in memory at a time. */
  readonly maxClients?: number
}

/**
 * file: is closed with the state. ready() reads the counters back, before the first call; it rejects with an Error of file, fault
 * and remedy. A crash makes the tokens that a client's row counts ahead unusable; close() keeps the true counts.
 */
export function openSqliteState(file: SqliteFile, options: FileStateOptions) {
  const { clock = { epochMs: () => Date.now() }, maxClients = MAX_CLIENTS } = options
  const rows = createRows(file)
  const keeper = new Journal({ timers: systemTimers, ...options, rows, clock })
  const authority = createEmbeddedAuthority({ clock, maxClients, keeper })
  const [bans, usage] = [createSqliteBanStore(file), createSqliteUsageStore(file)]
  return {
    ...embeddedState({ authority, bans, usage }),
    ready: async (): Promise<void> => {
      authority.restore(await rows.load(clock.epochMs(), maxClients))
      keeper.begin()
    },
  }
}
