/**
 * Who has used how much of a window: each client once per window and mark. What rows show counts what other processes have been
 * handed as used: no less than is true, so that it tells whom to look at. Time is that of the rows.
 */
import type { Limits } from '../../config/config.ts'
import type { Second } from '../live/second.ts'
import { DAY_MS, MINUTE_MS } from '../../config/time.ts'
import type { ClientCounters } from '../../state/memory/client-counters.ts'
import type { TallyRow, SeenUse } from '../../core/record/tally.ts'

export interface Reached {
  readonly client: string
  readonly plan: string
  readonly window: 'minute' | 'day'
  /** A fraction of 1, as configured. */
  readonly mark: number
  readonly used: number
  readonly limit: number
  /** End of the window, Unix time. */
  readonly untilMs: number
}

/** May have come to a mark. */
export interface Suspect {
  readonly id: string
  readonly limits: Limits
  readonly row: TallyRow
  /** Admitted by this gateway in the windows of the row: so much is used at least. */
  readonly own: Readonly<Record<Reached['window'], number>>
  /** Looks that have left it open. */
  readonly open: number
}

/** As the authority knows it, or as a row has it. */
export type Found = Readonly<
  Record<Reached['window'], Pick<ClientCounters['minute'], 'index' | 'taken' | 'used'>>
>

/** As it was looked at last: the highest mark reached in that window, and what was handed out by then. */
interface Known {
  readonly index: number
  readonly mark: number
  readonly taken: number
}

interface Window {
  readonly name: Reached['window']
  readonly lengthMs: number
  number: number
  /** By client. */
  readonly marks: Map<string, Known>
  readonly own: Map<string, number>
}

/** The clock was put back by more than this: what was seen by it is forgotten. */
const BACK_SECONDS = 2
/** A client is looked at no more often, and of all so many a second: each look is up to three calls to the store, and one of each process that holds tokens. */
const REST_SECONDS = 5
const LOOKS_PER_SECOND = 50
/** By then what was idle has gone back: what is still out is being spent, which rows show, or with processes that have died. */
const OPEN_AT_MOST = 2

export class QuotaMarks {
  /** Written by see, as are the windows but for their marks. */
  #latest = 0
  readonly #windows: readonly Window[] = [
    { name: 'minute', lengthMs: MINUTE_MS, number: 0, marks: new Map(), own: new Map() },
    { name: 'day', lengthMs: DAY_MS, number: 0, marks: new Map(), own: new Map() },
  ]
  readonly #suspects = new Map<string, Suspect>()
  /** When each was looked at last, longest ago first. */
  readonly #looked = new Map<string, number>()

  /** Notes who may have come to a mark. */
  see({ at, rows }: Pick<Second, 'at' | 'rows'>, marks: readonly number[]): void {
    if (at < this.#latest - BACK_SECONDS) {
      for (const window of this.#windows) window.number = 0
      this.#looked.clear()
    }
    this.#latest = at
    for (const row of rows) this.#see(row, marks)
  }

  /** Whom to look at now; none is named again before it was seen once more, or put back. */
  due(count = LOOKS_PER_SECOND): Suspect[] {
    for (const [id, at] of this.#looked) {
      if (this.#latest - at < REST_SECONDS) break
      this.#looked.delete(id)
    }
    const due: Suspect[] = []
    for (const suspect of this.#suspects.values()) {
      if (due.length >= count) break
      if (!this.#looked.has(suspect.id)) due.push(suspect)
    }
    for (const { id } of due) {
      this.#suspects.delete(id)
      this.#looked.set(id, this.#latest)
    }
    return due
  }

  /** Is looked at once more after a rest. */
  putBack(suspect: Suspect): void {
    if (!this.#suspects.has(suspect.id)) this.#suspects.set(suspect.id, suspect)
  }

  /** What processes hold decides it still, though they were asked. */
  leaveOpen(suspect: Suspect): void {
    if (suspect.open < OPEN_AT_MOST) this.putBack({ ...suspect, open: suspect.open + 1 })
  }

  /** Whether what processes hold, and may have spent, decides it. */
  isOpen({ id, row }: Suspect, found: Found, marks: readonly number[]): boolean {
    return this.#windows.some(({ name, lengthMs, marks: reached }) => {
      const { index, taken, used } = found[name]
      const { limit = Infinity } = row[name] ?? {}
      if (index > indexOf(row, lengthMs)) return false
      const known = Math.max(highest({ used, limit }, marks), markIn(reached.get(id), index))
      return highest({ used: taken, limit }, marks) > known
    })
  }

  /** The marks that it has truly come to; of several at once the highest. */
  reached({ id, row, own }: Suspect, found: Found, marks: readonly number[]): Reached[] {
    return this.#windows.flatMap(({ name, lengthMs, marks: reached }) => {
      // Of a window that has ended meanwhile the authority knows nothing: what this gateway has counted is true, though it may be less.
      const isOver = found[name].index > indexOf(row, lengthMs)
      const index = isOver ? indexOf(row, lengthMs) : found[name].index
      const use = {
        used: isOver ? own[name] : found[name].used,
        limit: row[name]?.limit ?? Infinity,
      }
      const mark = highest(use, marks)
      const before = markIn(reached.get(id), index)
      const taken = isOver ? use.used : found[name].taken
      reached.set(id, { index, mark: Math.max(mark, before), taken })
      if (mark <= before) return []
      const untilMs = (index + 1) * lengthMs
      return [{ client: id, plan: row.plan, window: name, mark, ...use, untilMs }]
    })
  }

  #see(row: TallyRow, marks: readonly number[]): void {
    const { client: id, minute, day } = row
    const own = { minute: 0, day: 0 }
    let isSuspect = false
    for (const window of this.#windows) {
      const number = indexOf(row, window.lengthMs)
      if (number > window.number) {
        window.marks.clear()
        window.own.clear()
      }
      window.number = Math.max(number, window.number)
      // What is of a window that is over is told to nobody.
      if (number < window.number) continue
      own[window.name] = (window.own.get(id) ?? 0) + row.admitted
      window.own.set(id, own[window.name])
      const known = window.marks.get(id)
      // What was handed out when it was looked at shows nothing new: tokens of a process that has died are never spent.
      const hasGrown = known?.index !== number || (row[window.name]?.used ?? 0) > known.taken
      isSuspect ||= hasGrown && highest(row[window.name], marks) > markIn(known, number)
    }
    if (!isSuspect || minute === undefined || day === undefined) return
    const limits = { perMinute: minute.limit, perDay: day.limit }
    this.#suspects.set(id, { id, limits, row, own, open: 0 })
  }
}

/** Where nobody else holds tokens. */
export const asSeen = ({ row }: Suspect): Found => ({
  minute: { index: indexOf(row, MINUTE_MS), ...usedOf(row.minute) },
  day: { index: indexOf(row, DAY_MS), ...usedOf(row.day) },
})

const usedOf = ({ used }: SeenUse = { used: 0, limit: 0 }) => ({ taken: used, used })

const indexOf = ({ lastUsedMs }: TallyRow, lengthMs: number): number =>
  Math.floor(lastUsedMs / lengthMs)

const markIn = (known: Known | undefined, index: number): number =>
  known?.index === index ? known.mark : 0

const highest = (use: SeenUse | undefined, marks: readonly number[]): number =>
  Math.max(0, ...marks.filter((mark) => use !== undefined && use.used >= mark * use.limit))
