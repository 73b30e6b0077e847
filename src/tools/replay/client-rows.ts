/** Counts the requests of each client, in rows of numbers because there may be a million clients. */
import { DAY_MS, MINUTE_MS } from '../../config/time.ts'
import type { Decided } from './policy.ts'
import type { Outcome, ReplayedClient } from './report.ts'

const WORDS = ['minute', 'day', 'ban'] as const

/** Places in a row. OUTCOMES are those of the new configuration, BEFORE the same of the old one. */
const REQUESTS = 0
const OUTCOMES = 1
const BEFORE = 6
/** First refusals by minute, day and ban in Unix time in ms; 0: none. */
const FIRST = 11
const PEAK_MINUTE = 14
const PEAK_DAY = 15
/** The current minute and day, each followed by its requests. */
const MINUTE = 16
const DAY = 18
const WIDTH = 20

const placeOf: Readonly<Record<Decided, number>> = {
  admitted: 0,
  minute: 1,
  day: 2,
  ban: 3,
  free: 4,
}

export class ClientRows {
  readonly #names: { readonly client: string; readonly plan: string }[] = []
  readonly #numbers = new Map<string, number>()
  #rows = new Float64Array(1024 * WIDTH)

  get size(): number {
    return this.#names.length
  }

  /** Returns the number of a client, which its id identifies. */
  numberOf(client: string, plan: string): number {
    const known = this.#numbers.get(client)
    if (known !== undefined) return known
    const number = this.#names.push({ client, plan }) - 1
    this.#numbers.set(client, number)
    if (this.#rows.length < (number + 1) * WIDTH) {
      const larger = new Float64Array(this.#rows.length * 2)
      larger.set(this.#rows)
      this.#rows = larger
    }
    return number
  }

  add(client: number, atMs: number, decided: Decided): void {
    const row = client * WIDTH
    const place = placeOf[decided]
    this.#plus(row + REQUESTS)
    this.#plus(row + OUTCOMES + place)
    if (place > 0 && place <= placeOf.ban && this.#rows[row + FIRST + place - 1] === 0)
      this.#rows[row + FIRST + place - 1] = Math.floor(atMs)
    this.#inWindow(row + MINUTE, row + PEAK_MINUTE, Math.floor(atMs / MINUTE_MS))
    this.#inWindow(row + DAY, row + PEAK_DAY, Math.floor(atMs / DAY_MS))
  }

  addBefore(client: number, decided: Decided): void {
    this.#plus(client * WIDTH + BEFORE + placeOf[decided])
  }

  client(number: number, hasBefore: boolean): ReplayedClient {
    const row = number * WIDTH
    const { client = '', plan = '' } = this.#names[number] ?? {}
    const first = (nth: number): string | null => {
      const atMs = this.#at(row + FIRST + nth)
      return atMs === 0 ? null : new Date(atMs).toISOString()
    }
    return {
      client,
      plan,
      requests: this.#at(row + REQUESTS),
      ...this.#outcome(row + OUTCOMES, hasBefore),
      first: { minute: first(0), day: first(1), ban: first(2) },
      ...(hasBefore && { before: this.#outcome(row + BEFORE, hasBefore) }),
      peak: { minute: this.#at(row + PEAK_MINUTE), day: this.#at(row + PEAK_DAY) },
    }
  }

  #outcome(place: number, hasBefore: boolean): Outcome {
    const [minute = 0, day = 0, ban = 0] = WORDS.map((_, nth) => this.#at(place + 1 + nth))
    const other = hasBefore && { other: this.#at(place + placeOf.free) }
    return { admitted: this.#at(place), refused: { minute, day, ban }, ...other }
  }

  /** Counts a request in the window at `place`, and raises the peak. */
  #inWindow(place: number, peak: number, index: number): void {
    // The request came late: its window is over.
    if (index < this.#at(place)) return
    if (this.#rows[place] !== index) {
      this.#rows[place] = index
      this.#rows[place + 1] = 0
    }
    this.#plus(place + 1)
    this.#rows[peak] = Math.max(this.#at(peak), this.#at(place + 1))
  }

  #plus(place: number): void {
    this.#rows[place] = this.#at(place) + 1
  }

  #at(place: number): number {
    return this.#rows[place] ?? 0
  }
}
