/**
 * What clients have used, day by day: taken from the tallies of this gateway's processes and written behind, soon and once. A crash
 * of a process loses its latest second and what came to the process that writes within WRITE_AFTER_MS, 1.2 s together.
 */
import { randomBytes } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { StoreUnavailable } from '../../state/store-unavailable.ts'
import { DayTable, isSomething, type DayRow } from '../../state/day-totals.ts'
import type { TallyRow } from '../../core/record/tally.ts'
import type { Batch, UsageStore } from '../../state/usage.ts'

export interface UsageHistoryOptions {
  readonly store: UsageStore
  /** Called once when nothing can be written any more; it is kept in memory, and tried again every second. */
  readonly onFault: (error: unknown) => void
  /** Called once when something was written again. */
  readonly onRecovered: () => void
  /** Called once, until something was written again: requests will never be known of, as memory is full, or this process ends first. */
  readonly onDropped: () => void
}

/** So that all processes of the gateway go along. */
const WRITE_AFTER_MS = 200
const RETRY_AFTER_MS = 1_000
/** A Redis does nothing else for about 1 ms. */
const BATCH_ROWS = 100
/** Rows of a client, plan and day that wait for the store: 40 MB. */
const MAX_WAITING_ROWS = 200_000

export class UsageHistory {
  readonly #options: UsageHistoryOptions
  readonly #process = randomBytes(9).toString('base64url')
  readonly #waiting = new DayTable(MAX_WAITING_ROWS)
  /** Sent, and not known to be kept: to be sent again as it is. Written by #write, as is the next. */
  #batch: Batch | undefined
  #sequence = 0
  /** Begin of the first of the writes that failed; undefined: all is well. Written by flush. */
  #failingSinceMs: number | undefined
  #isClosed = false
  #timer: NodeJS.Timeout | undefined
  #running: Promise<void> | undefined
  /** Of readings. Written by day. */
  #turns: Promise<void> = Promise.resolve()
  /** Requests that will never be known of. Written by #drop, as is the next. */
  dropped = 0
  #isDropping = false

  constructor(options: UsageHistoryOptions) {
    this.#options = options
  }

  /** What a process of this gateway has counted since it was asked last. */
  add(rows: readonly TallyRow[]): void {
    for (const row of rows) {
      if (!isSomething(row) || this.#waiting.add(row.dayIndex, row)) continue
      this.#drop(row)
    }
    this.#writeAfter(WRITE_AFTER_MS)
  }

  /** How long nothing could be written. */
  get unsavedSeconds(): number {
    return this.#failingSinceMs === undefined
      ? 0
      : (performance.now() - this.#failingSinceMs) / 1000
  }

  get scope(): UsageStore['scope'] {
    return this.#options.store.scope
  }

  /** A row for each client and plan of a day, in pieces; what this gateway has counted until now is among them. Throws where the store is away. */
  async *day(day: number): AsyncGenerator<readonly DayRow[]> {
    await this.#written(day, day)
    for await (const rows of this.#options.store.day(day)) {
      // Of all readings one piece in a turn of the event loop, or their pieces, which come one upon the other, would hold up requests.
      await (this.#turns = this.#turns.then(() => nextTurn()))
      // All of it was handed back, in a second after that in which it was charged.
      yield rows.filter(isSomething)
    }
  }

  /** All rows of one client, by day, in the same way. */
  async client(client: string, from: number, to: number): ReturnType<UsageStore['client']> {
    await this.#written(from, to)
    const days = await this.#options.store.client(client, from, to)
    return days.filter(([, row]) => isSomething(row))
  }

  /** Writes what there is, if that can be done now. Never rejects. */
  async close(): Promise<void> {
    await this.#running
    await this.#flush()
    this.#isClosed = true
    clearTimeout(this.#timer)
    for (let left = this.#batch ?? this.#next(); left !== undefined; left = this.#next())
      for (const row of left.rows) this.#drop(row)
    await this.#options.store.close().catch(this.#options.onFault)
  }

  /** Nothing is told of a day of which something is missing. */
  async #written(from: number, to: number): Promise<void> {
    await this.#running
    await this.#flush()
    for (let day = from; day <= to; day++)
      if (this.#batch?.day === day || this.#waiting.has(day))
        throw new StoreUnavailable('error', 'what was counted lately cannot be written')
  }

  #writeAfter(delayMs: number): void {
    if (this.#isClosed || this.#timer !== undefined || this.#isEmpty) return
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      void this.#flush()
    }, delayMs).unref()
  }

  get #isEmpty(): boolean {
    return this.#batch === undefined && this.#waiting.size === 0
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
    const taken = this.#waiting.take(BATCH_ROWS)
    return taken && { process: this.#process, sequence: ++this.#sequence, ...taken }
  }

  #drop({ admitted, refusedMinute, refusedDay, refusedBan }: Counts): void {
    this.dropped += Math.abs(admitted) + refusedMinute + refusedDay + refusedBan
    if (!this.#isDropping) this.#options.onDropped()
    this.#isDropping = true
  }
}

type Counts = Omit<DayRow, 'client' | 'plan'>
