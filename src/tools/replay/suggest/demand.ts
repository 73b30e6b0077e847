/** Keeps how many requests each client sent in each minute, so that other limits can be tried on them. */
import { MINUTE_MS } from '../../../config/time.ts'

/** An entry of four bytes counts up to 255 requests of one client in one minute. */
const MOST_ENTRIES = 32 * 1024 * 1024
const ENTRIES_A_CHUNK = 1024 * 1024
const MOST_OF_AN_ENTRY = 255
const SHIFT = MOST_OF_AN_ENTRY + 1

/** The requests of all clients by minute. Clients are numbers from 0 on, below 2^24. */
export class Demand {
  #chunks: Uint32Array[] = []
  #entries = 0
  /** Minutes since 1970, and the number of entries before each. */
  readonly #minutes: number[] = []
  readonly #starts: number[] = []
  /** The current minute, and its requests by client. */
  #minute = -Infinity
  #requests = new Uint32Array(1024)
  #clients: number[] = []
  #untilMs: number | undefined
  readonly #mostEntries

  constructor(mostEntries = MOST_ENTRIES) {
    this.#mostEntries = mostEntries
  }

  /** Unix time in ms up to which the demand is complete; undefined: all of it is. */
  get untilMs(): number | undefined {
    return this.#untilMs
  }

  /** Adds a request; a late one counts in the current minute. */
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

  /** Calls for each client of each minute, in the order of time; atMs: beginning of the minute in Unix time. A client may come more than once in a minute. */
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
