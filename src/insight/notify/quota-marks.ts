/**
 * Finds clients that have used a configured share (a mark) of a window, each once per window and mark. Rows count tokens
 * handed to other processes as used, which is never too low, so they show which clients to look up. All times are those of
 * the rows.
 */
import type { Limits } from '../../config/config.ts'
import type { Second } from '../live/second.ts'
import { BACK_SECONDS } from '../live/seconds.ts'
import { byLimit, perWindow, windows, type PerWindow, type WindowName } from '../../config/time.ts'
import type { ClientCounters } from '../../state/counters.ts'
import { useIn, type TallyRow, type SeenUse } from '../../core/record/tally.ts'

interface Reached {
  readonly client: string
  readonly plan: string
  readonly window: WindowName
  /** Share of the limit, as configured; 1 is all of it. */
  readonly mark: number
  readonly used: number
  readonly limit: number
  /** End of the window, Unix time. */
  readonly untilMs: number
}

/** A client that may have reached a mark. */
export interface Suspect {
  readonly id: string
  readonly limits: Limits
  readonly row: TallyRow
  /** Requests that this gateway has admitted in the row's windows: a lower bound of the use. */
  readonly own: PerWindow<number>
  /** Number of look-ups that left open whether a mark is reached. */
  readonly open: number
}

/** Use of all windows, from the authority or from a row. */
export type CurrentUse = Pick<ClientCounters, WindowName>

/** Result of the last look-up: the highest mark reached in that window, and the tokens handed out by then. */
interface LastLookUp {
  readonly index: number
  readonly mark: number
  readonly taken: number
}

/**
 * Pause between two look-ups of a client, and look-ups of all clients a second: each costs up to three calls to the store,
 * and one more from each process that holds tokens.
 */
const REST_SECONDS = 5
const LOOKS_PER_SECOND = 50
/**
 * How often an undecided client is put back before it is given up: by then idle tokens have been handed back, and those still
 * out are being spent, which rows show, or were lost with a process.
 */
const OPEN_AT_MOST = 2

export class QuotaMarks {
  /** Second of the latest rows. Written by see, as are the windows except their marks. */
  #latest = 0
  readonly #windows = windows.map(({ name, lengthMs }) => ({
    name,
    lengthMs,
    number: 0,
    /** Both maps are keyed by client id. */
    marks: new Map<string, LastLookUp>(),
    own: new Map<string, number>(),
  }))
  readonly #suspects = new Map<string, Suspect>()
  /** Second of each client's last look-up, oldest first. */
  readonly #looked = new Map<string, number>()

  /** Notes clients that may have reached a mark. */
  see({ at, rows }: Pick<Second, 'at' | 'rows'>, marks: readonly number[]): void {
    if (at < this.#latest - BACK_SECONDS) {
      for (const window of this.#windows) window.number = 0
      this.#looked.clear()
    }
    this.#latest = at
    for (const row of rows) this.#see(row, marks)
  }

  /** Returns the clients to look up now. Each is returned only once, until it is seen again or put back. */
  due(): Suspect[] {
    for (const [id, at] of this.#looked) {
      if (this.#latest - at < REST_SECONDS) break
      this.#looked.delete(id)
    }
    const due: Suspect[] = []
    for (const suspect of this.#suspects.values()) {
      if (due.length >= LOOKS_PER_SECOND) break
      if (!this.#looked.has(suspect.id)) due.push(suspect)
    }
    for (const { id } of due) {
      this.#suspects.delete(id)
      this.#looked.set(id, this.#latest)
    }
    return due
  }

  /** Has the client looked up again after REST_SECONDS. */
  putBack(suspect: Suspect): void {
    if (!this.#suspects.has(suspect.id)) this.#suspects.set(suspect.id, suspect)
  }

  /** Puts the client back, at most OPEN_AT_MOST times, while tokens that processes hold leave it undecided. */
  leaveOpen(suspect: Suspect): void {
    if (suspect.open < OPEN_AT_MOST) this.putBack({ ...suspect, open: suspect.open + 1 })
  }

  /** Whether a further mark would be reached if processes had spent the tokens that they hold. */
  isOpen({ id, row }: Suspect, found: CurrentUse, marks: readonly number[]): boolean {
    return this.#windows.some(({ name, lengthMs, marks: reached }) => {
      const { index, taken, used } = found[name]
      const limit = row[`${name}Limit`]
      if (index > indexOf(row, lengthMs)) return false
      const known = Math.max(highest({ used, limit }, marks), markIn(reached.get(id), index))
      return highest({ used: taken, limit }, marks) > known
    })
  }

  /** Notes the look-up; returns the marks that the client has certainly reached and that are new, of each window the highest. */
  reached({ id, row, own }: Suspect, found: CurrentUse, marks: readonly number[]): Reached[] {
    return this.#windows.flatMap(({ name, lengthMs, marks: reached }) => {
      // The authority forgets a window that has ended; this gateway's own count is then a lower bound.
      const ended = { index: indexOf(row, lengthMs), used: own[name], taken: own[name] }
      const { index, used, taken } = found[name].index > ended.index ? ended : found[name]
      const use = { used, limit: row[`${name}Limit`] }
      const mark = highest(use, marks)
      const before = markIn(reached.get(id), index)
      reached.set(id, { index, mark: Math.max(mark, before), taken })
      if (mark <= before) return []
      const untilMs = (index + 1) * lengthMs
      return [{ client: id, plan: row.plan, window: name, mark, ...use, untilMs }]
    })
  }

  #see(row: TallyRow, marks: readonly number[]): void {
    const { client: id } = row
    const own: Record<WindowName, number> = perWindow(() => 0)
    let isSuspect = false
    for (const window of this.#windows) {
      const number = indexOf(row, window.lengthMs)
      if (number > window.number) {
        window.marks.clear()
        window.own.clear()
      }
      window.number = Math.max(number, window.number)
      // Use of a window that is over is not reported.
      if (number < window.number) continue
      own[window.name] = (window.own.get(id) ?? 0) + row.admitted
      window.own.set(id, own[window.name])
      const known = window.marks.get(id)
      // Tokens handed out before the last look-up show nothing new: those of a process that died are never spent.
      const hasGrown = known?.index !== number || row[`${window.name}Used`] > known.taken
      isSuspect ||= hasGrown && highest(useIn(row, window.name), marks) > markIn(known, number)
    }
    if (!isSuspect) return
    const limits = byLimit(({ name }) => row[`${name}Limit`])
    this.#suspects.set(id, { id, limits, row, own, open: 0 })
  }
}

const indexOf = ({ lastUsedMs }: TallyRow, lengthMs: number): number =>
  Math.floor(lastUsedMs / lengthMs)

const markIn = (known: LastLookUp | undefined, index: number): number =>
  known?.index === index ? known.mark : 0

const highest = (use: SeenUse | undefined, marks: readonly number[]): number =>
  Math.max(0, ...marks.filter((mark) => use !== undefined && use.used >= mark * use.limit))
