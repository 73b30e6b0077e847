/**
 * Daily use of all clients, collected from the tallies of this gateway's processes and written to the store soon afterwards,
 * each count once. A crash of a process loses at most 1.2 s: its latest second, and what the writing process received within
 * WRITE_AFTER_MS.
 */
import { randomBytes } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { StoreUnavailable } from '../../state/contract.ts'
import { DAY_COUNTS, isSomething, plus } from '../../state/usage.ts'
import type { Batch, DayRow, UsageStore } from '../../state/usage.ts'
import type { TallyRow } from '../../core/record/tally.ts'

interface UsageHistoryOptions {
  readonly store: UsageStore
  /** Called once when writing fails; counts stay in memory, and writing is tried again every second. */
  readonly onFault: (error: unknown) => void
  /** Called once when writing works again. */
  readonly onRecovered: () => void
  /** Called when counts are lost because memory is full or this process ends; only once until writing works again. */
  readonly onDropped: () => void
}

/** Long enough for the counts of all processes to go into one write. */
const WRITE_AFTER_MS = 200
const RETRY_AFTER_MS = 1_000
/** Rows in one write: they keep a Redis busy for about 1 ms. */
const BATCH_ROWS = 100
/** Rows of a client, plan and day that wait for the store: 50 MB. */
const MAX_WAITING_ROWS = 200_000

export class UsageHistory {
  readonly #options: UsageHistoryOptions
  readonly #process = randomBytes(9).toString('base64url')
  /** Sums by `DAY PLAN CLIENT`: no plan's name has a space. */
  readonly #waiting = new Map<string, WaitingRow>()
  /** Batch whose write is not confirmed; it is sent again unchanged. Written by #write, as is #sequence. */
  #batch: Batch | undefined
  #sequence = 0
  /** Start of the first failed write, on the clock of performance.now(); undefined: the last write succeeded. Written by #flush. */
  #failingSinceMs: number | undefined
  #isClosed = false
  #timer: NodeJS.Timeout | undefined
  #running: Promise<void> | undefined
  /** Resolves when all earlier readings have had their turn. Written by day. */
  #turns: Promise<void> = Promise.resolve()
  /** Requests whose counts are lost. Written by #drop, as is #isDropping. */
  dropped = 0
  #isDropping = false

  constructor(options: UsageHistoryOptions) {
    this.#options = options
  }

  /** Adds what a process of this gateway has counted since its last report. */
  add(rows: readonly TallyRow[]): void {
    for (const row of rows) {
      if (!isSomething(row)) continue
      const key = `${row.dayIndex} ${row.plan} ${row.client}`
      const sum = this.#waiting.get(key)
      if (sum === undefined && this.#waiting.size >= MAX_WAITING_ROWS) this.#drop(row)
      else this.#waiting.set(key, { day: row.dayIndex, ...plus(sum, row) })
    }
    this.#writeAfter(WRITE_AFTER_MS)
  }

  /** Seconds since writing began to fail. */
  get unsavedSeconds(): number {
    if (this.#failingSinceMs === undefined) return 0
    return (performance.now() - this.#failingSinceMs) / 1000
  }

  get scope(): UsageStore['scope'] {
    return this.#options.store.scope
  }

  /** One row for each client and plan of a day, in pieces, with all that this gateway has counted so far. Throws while the store is away. */
  async *day(day: number): AsyncGenerator<readonly DayRow[]> {
    await this.#written(day, day)
    for await (const rows of this.#options.store.day(day)) {
      // All readings together take one piece in a turn of the event loop; otherwise they would hold up requests.
      await (this.#turns = this.#turns.then(() => nextTurn()))
      // A row is empty when all its charges were handed back in a later second.
      yield rows.filter(isSomething)
    }
  }

  /** All rows of one client, by day, with all that this gateway has counted so far. Rejects while the store is away. */
  async client(client: string, from: number, to: number): ReturnType<UsageStore['client']> {
    await this.#written(from, to)
    const days = await this.#options.store.client(client, from, to)
    return days.filter(([, row]) => isSomething(row))
  }

  /** Writes what waits, with one attempt. Never rejects. */
  async close(): Promise<void> {
    await this.#running
    await this.#flush()
    this.#isClosed = true
    clearTimeout(this.#timer)
    for (let left = this.#batch ?? this.#next(); left !== undefined; left = this.#next())
      for (const row of left.rows) this.#drop(row)
  }

  /** Throws while counts of these days cannot be written: an incomplete day is not reported. */
  async #written(from: number, to: number): Promise<void> {
    await this.#running
    await this.#flush()
    for (const unwritten of [this.#batch, ...this.#waiting.values()])
      if (unwritten !== undefined && from <= unwritten.day && unwritten.day <= to)
        throw new StoreUnavailable('error', 'what was counted lately cannot be written')
  }

  #writeAfter(delayMs: number): void {
    const isEmpty = this.#batch === undefined && this.#waiting.size === 0
    if (this.#isClosed || this.#timer !== undefined || isEmpty) return
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      void this.#flush()
    }, delayMs).unref()
  }

  /** Joins the write under way. Never rejects. */
  #flush(): Promise<void> {
    const { onFault, onRecovered } = this.#options
    const begunMs = performance.now()
    this.#running ??= this.#write()
      .then(
        () => {
          if (this.#failingSinceMs !== undefined) onRecovered()
          this.#failingSinceMs = undefined
          this.#isDropping = false
        },
        (error: unknown) => {
          if (this.#failingSinceMs === undefined) onFault(error)
          this.#failingSinceMs ??= begunMs
        },
      )
      .finally(() => {
        this.#running = undefined
        this.#writeAfter(RETRY_AFTER_MS)
      })
    return this.#running
  }

  async #write(): Promise<void> {
    for (;;) {
      this.#batch ??= this.#next()
      if (this.#batch === undefined) return
      await this.#options.store.add(this.#batch)
      this.#batch = undefined
    }
  }

  #next(): Batch | undefined {
    const rows: WaitingRow[] = []
    for (const [key, row] of this.#waiting) {
      if (rows.length >= BATCH_ROWS || row.day !== (rows[0] ?? row).day) break
      rows.push(row)
      this.#waiting.delete(key)
    }
    const [first] = rows
    return first && { process: this.#process, sequence: ++this.#sequence, day: first.day, rows }
  }

  #drop(counts: Counts): void {
    for (const name of DAY_COUNTS) this.dropped += Math.abs(counts[name])
    if (!this.#isDropping) this.#options.onDropped()
    this.#isDropping = true
  }
}

type Counts = Omit<DayRow, 'client' | 'plan'>
type WaitingRow = DayRow & { readonly day: number }
