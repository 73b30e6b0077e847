/**
 * Keeps the embedded authority's counters in store.file. A row says how many more tokens may be taken before it is written again:
 * after a crash it counts at least what was taken. A request that takes more (a first one, a burst) waits for a write shared by all.
 */
import type { Limits } from '../../config/config.ts'
import { windowNames, windows, type WindowName } from '../../config/time.ts'
import { StoreUnavailable, type UnsavedCounters } from '../contract.ts'
import { firstKeptDay } from '../memory/authority.ts'
import type { ClientState } from '../memory/transition.ts'
import { afterTurn, bounded } from '../timers.ts'
import { columnOf } from '../usage.ts'
import type { SqliteFile } from './file.ts'

/** A crash makes at most this part of a client's minute unusable, in all windows, but at least one token. */
const AHEAD_OF_A_MINUTE = 1 / 16
const SAVE_EVERY_MS = 800
const BATCH_CLIENTS = 1_000
/** The part of a call's bound that may be spent on the disk; the rest is for the way to the authority. */
const WAIT_FOR_DISK = 0.8
const SILENT_AFTER_MS = 1_000
/** A read that takes longer fails with StoreUnavailable. */
const FIND_TIMEOUT_MS = 150

/** The tokens of a client handed out in the windows that still run. */
export interface Row extends Readonly<Record<`${WindowName}${'Index' | 'Taken'}`, number>> {
  readonly client: string
  /** After a crash so many more tokens count as taken, in all windows. */
  readonly ahead: number
}

const windowFields = windowNames.map((name) => ({
  name,
  index: `${name}Index` as const,
  taken: `${name}Taken` as const,
}))
const columns = [...windowFields.flatMap(({ index, taken }) => [index, taken]), 'ahead'] as const
const select = `SELECT client, ${columns.map((name) => `${columnOf(name)} AS ${name}`).join()} FROM quota WHERE`
const save = `INSERT OR REPLACE INTO quota (client, ${columns.map(columnOf).join()})
  VALUES (?, ${columns.map(() => '?').join()})`
const removeDaysBefore = 'DELETE FROM quota WHERE day_index < ?'
/** Counts the tokens ahead as taken, in the windows of the row or in those that may have begun since. */
const aheadOf = (name: WindowName): string =>
  `${name}_taken = ahead + iif(${name}_index < ${name}, 0, ${name}_taken), ${name}_index = max(${name}_index, ${name})`
const countAhead = `UPDATE quota SET ${windowNames.map(aheadOf).join()}, ahead = 0
  FROM (SELECT ${windowNames.map((name) => `? AS ${name}`).join()}) WHERE ahead > 0`
const dropAhead = 'UPDATE quota SET ahead = 0 WHERE ahead > 0'

export type Rows = ReturnType<typeof createRows>

/** A rejected call has kept nothing; its Error gives fault and remedy. Client ids are well-formed strings. */
export const createRows = (file: SqliteFile) => ({
  /** Returns up to `atMost` rows of days that are still of use, as a crash or a stop has left them. */
  async load(nowMs: number, atMost: number): Promise<readonly Row[]> {
    await file.read(countAhead, ...windows.map(({ lengthMs }) => Math.floor(nowMs / lengthMs)))
    const first = firstKeptDay(nowMs)
    const rows = await file.read(`${select} day_index >= ? LIMIT ?`, first, atMost)
    // The constraints of the table ensure types and ranges.
    return rows as readonly unknown[] as readonly Row[]
  },
  async find(client: string): Promise<Row | undefined> {
    const [row] = await file.read(`${select} client = ?`, client)
    return row as Row | undefined
  },
  save(rows: readonly Row[]): Promise<void> {
    const numbers = columns.map((name) => Float64Array.from(rows, (row) => row[name]))
    return file.writeRows({ sql: save, columns: [rows.map(({ client }) => client), ...numbers] })
  },
  removeDaysBefore: (dayIndex: number) => file.write(removeDaysBefore, dayIndex),
  /** Sets `ahead` to 0, as the counts of the rows are exact. */
  dropAhead: () => file.write(dropAhead),
  close: () => file.close(),
})

/** A client of the embedded authority. */
export interface CountedClient {
  readonly id: string
  readonly state: ClientState
  /** The row on disk; undefined: there is none. Written by Journal. */
  row: Row | undefined
  /** The row of the write under way, which a crash may leave instead of `row`. Written by Journal. */
  saving?: Row | undefined
  /** The value of `ahead` for its next row. Written by Journal. */
  ahead: number
}

export interface JournalOptions {
  readonly rows: Omit<Rows, 'load'>
  readonly clock: { epochMs(): number }
  readonly timers: { every(intervalMs: number, task: () => void): () => void }
  /** Bound of a call. While a write takes longer than most of it, no call waits, and a crash would lose what is taken meanwhile. */
  readonly timeoutMs: number
  /** Called once when counters can no longer be kept; counting goes on in memory, and every round tries to write again. */
  readonly onFault: (error: unknown) => void
  /** Called once when writing works again. */
  readonly onRecovered?: () => void
}

export class Journal {
  readonly #options: JournalOptions
  #stop: (() => void) | undefined
  /** Clients whose rows are not up to date. */
  readonly #changed = new Set<CountedClient>()
  /** The number of these that the present round has to write. */
  #due = 0
  /** Clients whose rows have to be written at once, as requests wait for that or soon would. */
  readonly #urgent = new Set<CountedClient>()
  /** What the requests of these clients await; undefined: none waits. Written by #whenWritten and #takeWaiting. */
  #waiting: PromiseWithResolvers<void> | undefined
  /** Unix time in ms at the beginning of the write under way, or of the first that failed; undefined: all is well. Written by #written. */
  #askedMs: number | undefined
  /** The error of the latest round, if it failed. */
  #fault: Error | undefined
  #removedDaysBefore = 0
  /** The round under way; never rejects. */
  #running: Promise<void> | undefined
  #closed: Promise<void> | undefined

  constructor(options: JournalOptions) {
    this.#options = options
  }

  /** Called once the rows are loaded; removes the days that have ended. */
  begin(): void {
    this.#stop = this.#options.timers.every(SAVE_EVERY_MS, () => void this.#round(true))
    void this.#round(false)
  }

  get unsaved(): UnsavedCounters | undefined {
    if (this.#askedMs === undefined) return undefined
    const ageMs = this.#options.clock.epochMs() - this.#askedMs
    if (this.#fault === undefined && ageMs < SILENT_AFTER_MS) return undefined
    const { message } = this.#fault ?? { message: 'the disk does not answer' }
    const warning = `counters are not kept since ${new Date(this.#askedMs).toISOString()}, and a crash would lose them: ${message}`
    return { seconds: Math.max(0, ageMs) / 1000, warning }
  }

  /**
   * Follows every call, so it must be cheap. Resolves once what was taken may be spent, which a crash would lose before that;
   * undefined: at once, also while the disk fails or is late. A change during a write is written even if it restores the row on
   * disk. isReset: counts were set back, which a crash would undo.
   */
  carriedOut(
    client: CountedClient,
    { perMinute }: Limits,
    isReset = false,
  ): Promise<void> | undefined {
    const { state, row, saving } = client
    const kept = this.#since(row, state)
    if (!kept.isChanged && saving === undefined) return undefined
    this.#changed.add(client)
    client.ahead = Math.max(1, Math.floor(perMinute * AHEAD_OF_A_MINUTE))
    // A crash may leave either row.
    const left = Math.min(kept.left, saving ? this.#since(saving, state).left : Infinity)
    const isEnough = !isReset && left >= client.ahead / 2
    if (isEnough || this.#fault !== undefined || this.#closed !== undefined) return undefined
    // Calls in the same turn of the event loop share the write.
    if (this.#urgent.size === 0) setImmediate(() => void this.#round(false))
    this.#urgent.add(client)
    return (isReset || left < 0) && !this.#isLate() ? this.#whenWritten() : undefined
  }

  /** Whether the write under way takes too long for requests to wait. */
  #isLate(): boolean {
    const { clock, timeoutMs } = this.#options
    return clock.epochMs() - (this.#askedMs ?? Infinity) >= WAIT_FOR_DISK * timeoutMs
  }

  /** Compares a row with the counters. left: tokens that may be taken before another row is needed. */
  #since(row: Row | undefined, state: ClientState): { isChanged: boolean; left: number } {
    const isKept = row !== undefined && row.dayIndex >= this.#removedDaysBefore
    let [most, isChanged] = [-Infinity, false]
    for (const { name, index, taken } of windowFields) {
      const counts = state.counts[name]
      const more = counts.taken - (isKept && row[index] === counts.index ? row[taken] : 0)
      isChanged ||= more !== 0
      most = Math.max(most, more)
    }
    return { isChanged, left: (isKept ? row.ahead : 0) - most }
  }

  #whenWritten(): Promise<void> {
    if (this.#waiting === undefined) {
      this.#waiting = Promise.withResolvers()
      afterTurn(WAIT_FOR_DISK * this.#options.timeoutMs, this.#waiting.resolve)
    }
    return this.#waiting.promise
  }

  #takeWaiting(): PromiseWithResolvers<void> | undefined {
    const waiting = this.#waiting
    this.#waiting = undefined
    return waiting
  }

  /** Reads the row of a client that memory has forgotten; rejects with StoreUnavailable where that cannot be done in time. */
  find(id: string): Promise<Row | undefined> {
    const found = this.#options.rows.find(id).catch((error: unknown) => {
      throw new StoreUnavailable('error', error)
    })
    return bounded(found, FIND_TIMEOUT_MS, () => new StoreUnavailable('timeout'))
  }

  /** Whether a client's counters may leave memory: they are on disk, or cannot be kept there and memory is bounded. */
  mayForget(client: CountedClient): boolean {
    if (client.saving !== undefined) return false
    return !this.#changed.has(client) || (this.#fault !== undefined && this.#changed.delete(client))
  }

  /** Writes the remaining rows, with nothing counted ahead, and closes the file. Never rejects. */
  close(): Promise<void> {
    this.#closed ??= this.#end()
    return this.#closed
  }

  async #end(): Promise<void> {
    const { rows, onFault } = this.#options
    // The rows of a journal that has not begun stay as they are: a start has failed before they were read.
    if (this.#stop !== undefined) {
      this.#stop()
      await this.#running
      await this.#round(true)
      if (this.#fault === undefined) await rows.dropAhead().catch(onFault)
    }
    await rows.close()
  }

  /** Writes urgent rows, and with `all` also the rows that have changed until now; joins the round under way. */
  #round(all: boolean): Promise<void> {
    const { onFault } = this.#options
    if (all) this.#due = this.#changed.size
    this.#running ??= this.#write()
      .catch((error: unknown) => {
        if (this.#fault === undefined) onFault(error)
        this.#fault = error instanceof Error ? error : new Error(String(error))
        this.#urgent.clear()
        this.#takeWaiting()?.resolve()
      })
      .finally(() => (this.#running = undefined))
    return this.#running
  }

  async #write(): Promise<void> {
    const { clock, rows } = this.#options
    const dayIndex = firstKeptDay(clock.epochMs())
    if (dayIndex !== this.#removedDaysBefore) {
      this.#removedDaysBefore = dayIndex
      await this.#written(rows.removeDaysBefore(dayIndex))
    }
    while (this.#urgent.size > 0 || this.#due > 0) {
      const urgent = [...this.#urgent]
      this.#urgent.clear()
      const waiting = this.#takeWaiting()
      try {
        do await this.#save(urgent.splice(0, BATCH_CLIENTS))
        while (urgent.length > 0)
      } finally {
        // After a fault waiting calls go on, although a crash would lose what was taken.
        waiting?.resolve()
      }
    }
  }

  /** Writes these clients, and fills the batch with clients that are due. */
  async #save(batch: CountedClient[]): Promise<void> {
    for (const client of batch) this.#changed.delete(client)
    for (const client of this.#changed) {
      if (this.#due <= 0 || batch.length >= BATCH_CLIENTS) break
      this.#due -= 1
      this.#changed.delete(client)
      batch.push(client)
    }
    this.#due = Math.min(this.#due, this.#changed.size)
    const saved = batch.map((client) => (client.saving = nextRow(client)))
    try {
      await this.#written(this.#options.rows.save(saved))
      for (const client of batch) client.row = client.saving
    } catch (error) {
      for (const client of batch) this.#changed.add(client)
      throw error
    } finally {
      for (const client of batch) client.saving = undefined
    }
  }

  async #written(writing: Promise<void>): Promise<void> {
    if (this.#fault === undefined) this.#askedMs = this.#options.clock.epochMs()
    await writing
    if (this.#fault !== undefined) this.#options.onRecovered?.()
    this.#fault = undefined
    this.#askedMs = undefined
  }
}

function nextRow({ id, state, ahead }: CountedClient): Row {
  const row: { -readonly [Field in keyof Row]?: Row[Field] } = { client: id, ahead }
  for (const { name, index, taken } of windowFields) {
    row[index] = state.counts[name].index
    row[taken] = state.counts[name].taken
  }
  return row as Row
}
