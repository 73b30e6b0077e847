/** What clients asked for, minute by minute in the order of time, so that it can be tried again under other limits. */
import { MINUTE_MS } from '../../../config/time.ts'

/** A client's requests of one minute take four bytes, and four more for each 255 of them. */
const MOST_ENTRIES = 32 * 1024 * 1024
const ENTRIES_A_CHUNK = 1024 * 1024
const MOST_OF_AN_ENTRY = 255
const SHIFT = MOST_OF_AN_ENTRY + 1

/** Clients are numbers from 0 on, fewer than 2^24. Its methods alone write its fields. */
export class Demand {
  #chunks: Uint32Array[] = []
  #entries = 0
  /** Minutes since 1970, and how many entries lie before each. */
  readonly #minutes: number[] = []
  readonly #starts: number[] = []
  /** Of the minute that runs. */
  #minute = -Infinity
  #requests = new Uint32Array(1024)
  #clients: number[] = []
  #untilMs: number | undefined
  readonly #mostEntries

  constructor(mostEntries = MOST_ENTRIES) {
    this.#mostEntries = mostEntries
  }

  /** Unix time in ms up to which it is whole; undefined: all that was added is in it. */
  get untilMs(): number | undefined {
    return this.#untilMs
  }

  /** What comes late counts for the minute that runs. */
  add(client: number, atMs: number): void {
    const minute = Math.floor(atMs / MINUTE_MS)
    if (minute > this.#minute) this.#begin(minute)
    if (client >= this.#requests.length) {
      const larger = new Uint32Array(Math.max(client + 1, this.#requests.length * 2))
      larger.set(this.#requests)
      this.#requests = larger
    }
    if (this.#requests[client] === 0) this.#clients.push(client)
    this.#requests[client] = (this.#requests[client] ?? 0) + 1
  }

  /** Calls for each client of each minute, with the beginning of the minute in Unix time in ms. A client may come again within a minute. */
  each(call: (client: number, requests: number, atMs: number) => void): void {
    this.#begin(Infinity)
    for (const [nth, minute] of this.#minutes.entries()) {
      const end = this.#starts[nth + 1] ?? this.#entries
      for (let at = this.#starts[nth] ?? 0; at < end; at++) {
        const entry = this.#chunks[Math.floor(at / ENTRIES_A_CHUNK)]?.[at % ENTRIES_A_CHUNK] ?? 0
        call(Math.floor(entry / SHIFT), entry % SHIFT, minute * MINUTE_MS)
      }
    }
  }

  #begin(minute: number): void {
    const size = this.#clients.reduce(
      (sum, client) => sum + Math.ceil((this.#requests[client] ?? 0) / MOST_OF_AN_ENTRY),
      0,
    )
    if (this.#untilMs === undefined && this.#entries + size > this.#mostEntries)
      this.#untilMs = this.#minute * MINUTE_MS
    if (this.#untilMs === undefined && size > 0) {
      this.#minutes.push(this.#minute)
      this.#starts.push(this.#entries)
    }
    for (const client of this.#clients) {
      let left = this.#requests[client] ?? 0
      this.#requests[client] = 0
      for (; this.#untilMs === undefined && left > 0; left -= MOST_OF_AN_ENTRY)
        this.#write(client * SHIFT + Math.min(left, MOST_OF_AN_ENTRY))
    }
    this.#clients = []
    this.#minute = minute
  }

  #write(entry: number): void {
    const place = this.#entries % ENTRIES_A_CHUNK
    if (place === 0) this.#chunks.push(new Uint32Array(ENTRIES_A_CHUNK))
    const chunk = this.#chunks.at(-1)
    if (chunk !== undefined) chunk[place] = entry
    this.#entries += 1
  }
}
