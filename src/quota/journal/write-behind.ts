/** Carries changed counters into the journal while requests go on: a little less than a second behind, a few at a time. */
import { firstKeptDay } from './kept-counters.ts'
import type { SqliteJournal } from './sqlite-journal.ts'
import type { Timers } from '../timers.ts'
import type { UnsavedClients } from './unsaved-clients.ts'

/** With the time that writing takes, what a crash loses stays below a second. */
const SAVE_EVERY_MS = 800
const LOST_AT_MOST_MS = 1_000
/** A batch is made ready in well under a millisecond; other work goes on while the journal writes it. */
const BATCH_CLIENTS = 1_000

/** Counters that a crash would lose although their second is over. */
export interface UnsavedCounters {
  readonly seconds: number
  /** Since when, fault and remedy. */
  readonly warning: string
}

export interface WriteBehindOptions {
  readonly journal: SqliteJournal
  readonly unsaved: UnsavedClients
  readonly clock: { epochMs(): number }
  readonly timers: Pick<Timers, 'every'>
  /** Called once when counters can no longer be kept; counting goes on in memory, and writing is tried again each time. */
  readonly onFault: (error: unknown) => void
  /** Called once when everything is kept again. */
  readonly onRecovered: () => void
}

/** Begins at once, by removing the days that have ended. */
export class WriteBehind {
  readonly #options: WriteBehindOptions
  readonly #stop: () => void
  /** Of the last round, if it failed. Written by #save. */
  #fault: Error | undefined
  /** Begin of the first round since all was kept; undefined: all is. Written by #save. */
  #unsavedSinceMs: number | undefined
  /** undefined: no ended day was removed yet. */
  #removedDaysBefore: number | undefined
  /** The round under way; never rejects. */
  #running: Promise<void> | undefined
  #closed: Promise<void> | undefined

  constructor(options: WriteBehindOptions) {
    this.#options = options
    this.#stop = options.timers.every(SAVE_EVERY_MS, () => void this.#save())
    void this.#save()
  }

  get unsaved(): UnsavedCounters | undefined {
    const sinceMs = this.#unsavedSinceMs
    if (sinceMs === undefined) return undefined
    const ageMs = this.#options.clock.epochMs() - sinceMs
    if (this.#fault === undefined && ageMs < LOST_AT_MOST_MS) return undefined
    const { message } = this.#fault ?? { message: 'the disk does not answer' }
    const warning = `counters are not kept since ${new Date(sinceMs).toISOString()}, and a crash would lose them: ${message}`
    return { seconds: Math.max(0, ageMs) / 1000, warning }
  }

  /** Writes what is left and closes the journal. Never rejects. */
  close(): Promise<void> {
    this.#closed ??= this.#end()
    return this.#closed
  }

  async #end(): Promise<void> {
    this.#stop()
    await this.#running
    await this.#save()
    await this.#options.journal.close()
  }

  #save(): Promise<void> {
    const { clock, onFault, onRecovered } = this.#options
    this.#unsavedSinceMs ??= clock.epochMs()
    this.#running ??= this.#round()
      .then(() => {
        if (this.#fault !== undefined) onRecovered()
        this.#fault = undefined
        this.#unsavedSinceMs = undefined
      })
      .catch((error: unknown) => {
        if (this.#fault === undefined) onFault(error)
        this.#fault = error instanceof Error ? error : new Error(String(error))
      })
      .finally(() => {
        this.#running = undefined
      })
    return this.#running
  }

  async #round(): Promise<void> {
    // Clients that change from here on join the end of the queue, for the next round: one that is dropped and comes back
    // meanwhile must not be written before its former self is removed.
    const due = this.#options.unsaved.size
    await this.#removeEndedDays()
    await this.#removeDropped()
    await this.#saveChanged(due)
  }

  async #removeEndedDays(): Promise<void> {
    const { clock, journal } = this.#options
    const dayIndex = firstKeptDay(clock.epochMs())
    if (this.#removedDaysBefore !== undefined && dayIndex <= this.#removedDaysBefore) return
    await journal.removeDaysBefore(dayIndex)
    this.#removedDaysBefore = dayIndex
  }

  async #removeDropped(): Promise<void> {
    const { unsaved, journal } = this.#options
    const dropped = [...unsaved.droppedIds]
    while (dropped.length > 0) {
      const ids = dropped.splice(-BATCH_CLIENTS)
      await journal.remove(ids)
      for (const id of ids) unsaved.droppedIds.delete(id)
    }
  }

  async #saveChanged(count: number): Promise<void> {
    const { unsaved, journal } = this.#options
    for (let left = count; left > 0; left -= BATCH_CLIENTS) {
      const clients = unsaved.next(Math.min(left, BATCH_CLIENTS))
      await journal.save(clients).catch((error: unknown) => {
        for (const client of clients) unsaved.changed(client)
        throw error
      })
    }
  }
}
