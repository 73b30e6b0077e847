/** The embedded authority with a file: it counts in memory, keeps the counts in store.file, and reads them back. */
import { Journal, type UnsavedCounters } from './quota-journal.ts'
import { firstKeptDay, Rows } from './quota-rows.ts'
import type { OnFileEvent } from './file.ts'
import { DAY_MS, MINUTE_MS } from '../../config/time.ts'
import { systemTimers, type Timers } from '../timers.ts'
import {
  createEmbeddedAuthority,
  MAX_CLIENTS,
  type EmbeddedAuthority,
} from '../memory/authority.ts'

/**
 * file: store.file; undefined: nothing is kept over a restart, nor of more clients than maxClients.
 * onFileEvent: called where the file was damaged, or is removed or replaced while the gateway runs.
 * onFault: counters can no longer be kept; counting goes on in memory, and writing is tried again until onRecovered.
 * A crash forgets nothing that was admitted, but makes the tokens that a client's row counts ahead unusable. close() keeps the
 * true counts.
 * Throws an Error with file, fault and remedy when the file cannot be opened.
 */
export function openEmbeddedAuthority({
  file,
  clock,
  timeoutMs,
  onFileEvent,
  onFault,
  onRecovered = () => undefined,
  timers = systemTimers,
  maxClients = MAX_CLIENTS,
}: {
  file: string | undefined
  clock: { epochMs(): number }
  timeoutMs: number
  onFileEvent: OnFileEvent
  onFault: (error: unknown) => void
  onRecovered?: () => void
  timers?: Pick<Timers, 'every'>
  maxClients?: number
}): EmbeddedAuthority {
  const onForgotten = ({ warning }: UnsavedCounters): void => onFault(new Error(warning))
  if (file === undefined) return createEmbeddedAuthority({ clock, maxClients, onForgotten })
  const rows = new Rows(file, onFileEvent)
  const nowMs = clock.epochMs()
  const now = { minuteIndex: Math.floor(nowMs / MINUTE_MS), dayIndex: Math.floor(nowMs / DAY_MS) }
  const restored = rows.load(now, firstKeptDay(nowMs), maxClients)
  const journal = new Journal({ rows, clock, timers, timeoutMs, onFault, onRecovered })
  return createEmbeddedAuthority({ clock, maxClients, keeper: { journal, rows, restored } })
}
