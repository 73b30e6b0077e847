/** Carries changed counters into the journal while requests go on: a little less than a second behind, a few at a time. */
import { firstKeptDay, keptCounters } from './kept-counters.ts'
import type { QuotaJournal } from './quota-journal.ts'
import type { Timers } from '../timers.ts'
import type { UnsavedClients } from './unsaved-clients.ts'

/** With the time that writing takes, what a crash loses stays below a second. */
const SAVE_EVERY_MS = 800
/** A batch is made ready in well under a millisecond; other work goes on while the journal writes it. */
const BATCH_CLIENTS = 1_000

/**
 * Begins at once, by removing the days that have ended.
 * onFault: told once when counters can no longer be kept; counting goes on in memory, and writing is tried again each time.
 * onRecovered: told once when everything is kept again.
 * The result's close() writes what is left and closes the journal. Never rejects.
 */
export function startWriteBehind({
  journal,
  unsaved,
  clock,
  timers,
  onFault,
  onRecovered,
}: {
  journal: QuotaJournal
  unsaved: UnsavedClients
  clock: { epochMs(): number }
  timers: Pick<Timers, 'every'>
  onFault: (error: unknown) => void
  onRecovered: () => void
}): { close(): Promise<void> } {
  let isFaulty = false
  let removedDaysBefore = -1
  let running: Promise<void> | undefined

  const removeEndedDays = async (): Promise<void> => {
    const dayIndex = firstKeptDay(clock.epochMs())
    if (dayIndex <= removedDaysBefore) return
    await journal.removeDaysBefore(dayIndex)
    removedDaysBefore = dayIndex
  }
  const removeDropped = async (): Promise<void> => {
    for (;;) {
      const ids = unsaved.nextDropped(BATCH_CLIENTS)
      if (ids.length === 0) return
      await journal.remove(ids).catch((error: unknown) => {
        unsaved.putBackDropped(ids)
        throw error
      })
    }
  }
  const saveChanged = async (count: number): Promise<void> => {
    for (let left = count; left > 0; left -= BATCH_CLIENTS) {
      const clients = unsaved.next(Math.min(left, BATCH_CLIENTS))
      const counters = clients.map(({ id, state }) => keptCounters(id, state))
      await journal.save(counters).catch((error: unknown) => {
        unsaved.putBack(clients)
        throw error
      })
      recovered()
    }
  }
  const recovered = (): void => {
    if (isFaulty) onRecovered()
    isFaulty = false
  }
  const faulty = (error: unknown): void => {
    if (!isFaulty) onFault(error)
    isFaulty = true
  }
  const round = async (): Promise<void> => {
    // Clients that change from here on join the end of the queue, for the next round: one that is dropped and comes back
    // meanwhile must not be written before its former self is removed.
    const due = unsaved.size
    await removeEndedDays()
    await removeDropped()
    await saveChanged(due)
  }
  const save = (): Promise<void> => {
    running ??= round()
      .catch(faulty)
      .finally(() => {
        running = undefined
      })
    return running
  }

  const stop = timers.every(SAVE_EVERY_MS, () => void save())
  void save()
  const end = async (): Promise<void> => {
    stop()
    await running
    await save()
    await journal.close()
  }
  let ended: Promise<void> | undefined
  return { close: () => (ended ??= end()) }
}
