/** Keeps how many requests each client sent in each minute, so that other limits can be tried on them. */
import { MINUTE_MS } from '../../config/time.ts'

/** An entry of four bytes counts up to 255 requests of one client in one minute. */
const MOST_ENTRIES = 32 * 1024 * 1024
const MOST_OF_AN_ENTRY = 255
const SHIFT = MOST_OF_AN_ENTRY + 1

/** The requests of all clients by minute. Clients are numbers from 0 on, below 2^24. */
export class Demand {
  /** Minutes since 1970 with their entries, in order. */
  readonly #minutes: { readonly minute: number; readonly entries: Uint32Array }[] = []
  #entries = 0
  /** The current minute, and its requests by client. */
  #minute = -Infinity
  readonly #requests = new Map<number, number>()
  /** Unix time in ms up to which the demand is complete; undefined: all of it is. Written by #begin. */
  untilMs: number | undefined
  readonly #mostEntries

  constructor(mostEntries = MOST_ENTRIES) {
    this.#mostEntries = mostEntries
  }

  /** Adds a request; a late one counts in the current minute. */
  add(client: number, atMs: number): void {
    const minute = Math.floor(atMs / MINUTE_MS)
    if (minute > this.#minute) this.#begin(minute)
    this.#requests.set(client, (this.#requests.get(client) ?? 0) + 1)
  }

  /** Calls for each client of each minute, in the order of time; atMs: beginning of the minute in Unix time. A client may come more than once in a minute. */
  each(call: (client: number, requests: number, atMs: number) => void): void {
    this.#begin(this.#minute)
    for (const { minute, entries } of this.#minutes)
      for (const entry of entries)
        call(Math.floor(entry / SHIFT), entry % SHIFT, minute * MINUTE_MS)
  }

  #begin(minute: number): void {
    const entries: number[] = []
    for (const [client, requests] of this.#requests)
      for (let left = requests; left > 0; left -= MOST_OF_AN_ENTRY)
        entries.push(client * SHIFT + Math.min(left, MOST_OF_AN_ENTRY))
    this.#requests.clear()
    if (this.#entries + entries.length > this.#mostEntries)
      this.untilMs ??= this.#minute * MINUTE_MS
    if (this.untilMs === undefined && entries.length > 0) {
      this.#minutes.push({ minute: this.#minute, entries: Uint32Array.from(entries) })
      this.#entries += entries.length
    }
    this.#minute = minute
  }
}
