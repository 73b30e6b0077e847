/** Log lines about the stores of quotas, bans and totals. */
import type { OutageMode } from '../../config/config.ts'
import type { FileEvent } from '../../state/sqlite/thread.ts'
import type { Say } from './line-writer.ts'
import { describeError, text } from './log-text.ts'

export const storeLines = (say: Say) => ({
  /** server: of Redis; undefined: the store is the supervisor. */
  storeLost: (line: { mode: OutageMode; server: string | undefined; cause: string }) =>
    say('error', { event: 'storeLost', ...line, cause: text(line.cause) }),
  storeBack: (line: { server: string | undefined; outageMs: number }) =>
    say('info', { event: 'storeBack', ...line }),
  /** See StoreHealth. */
  storeWarning: ({ warning }: { warning: string }) =>
    say('warn', { event: 'storeWarning', warning: text(warning) }),
  /** The store's clock went back, so that minutes are counted anew; each process that notices writes one line. */
  clockWentBack: (line: { bySeconds: number }) => say('warn', { event: 'clockWentBack', ...line }),
  keyBanned: (line: { client: string; key: string; forMs: number; strikes: number | undefined }) =>
    say('warn', { event: 'keyBanned', ...line, client: text(line.client), key: text(line.key) }),
  /** Bans are kept in memory alone from now on, until banStoreBack. */
  banStoreLost: () => say('error', { event: 'banStoreLost' }),
  banStoreBack: () => say('info', { event: 'banStoreBack' }),
  /** A stored ban could not be read and was left out. */
  banMalformed: ({ where }: { where: string }) =>
    say('warn', { event: 'banMalformed', where: text(where) }),
  /** store.file was damaged, removed or replaced; see FileEvent. */
  storeFile: (line: FileEvent) => say('error', line),
  /** Quota counters can no longer be kept in store.file; they go on in memory, until countersKept. */
  countersNotKept: (error: unknown) =>
    say('error', { event: 'countersNotKept', ...describeError(error) }),
  countersKept: () => say('info', { event: 'countersKept' }),
  /** The totals of days cannot be written; they wait in memory, until usageKept. */
  usageNotKept: (error: unknown) =>
    say('error', { event: 'usageNotKept', ...describeError(error) }),
  usageKept: () => say('info', { event: 'usageKept' }),
  /** Too much waits, or the gateway ends first: some requests will be missing from the totals of days. */
  usageDropped: () => say('error', { event: 'usageDropped' }),
})
