/** One API key: what it asks, what it was answered, and never more than ten refusals of it. */
import { MINUTE_MS } from '../../config/time.ts'
import type { GatewayClock } from './clock.ts'
import { Connection, Unexpected, type Answer } from './connection.ts'
import { sleep, type Machine } from './machine.ts'
import { toldOf, type Limits, type Told } from './standing.ts'

/** Beyond, a gateway may take it for an attack. */
const MOST_REFUSALS = 10
/** After an edge a window is left alone for a while, but by the checks of edges: what happens there is their finding. */
const SETTLED_MS = 5_000
/** A connection idle for longer may be closed by the gateway while a request is on its way (RFC 9112 section 9.3.1). */
const REUSED_MS = 1_000

export interface Target {
  readonly url: URL
  readonly path: string
  readonly limits: Limits
  readonly clock: GatewayClock
  readonly machine: Machine
}

type Method = 'GET' | 'HEAD' | 'OPTIONS'

export interface KeyedAnswer extends Answer {
  readonly method: Method
  readonly isRefused: boolean
}

export class Caller {
  readonly #target: Target
  readonly #key: string | undefined
  #idle: Connection[] = []
  readonly #all: Connection[] = []
  /** Every answer, in the order in which they came. */
  readonly journal: KeyedAnswer[] = []
  /** In the window that this has begun to count in; other methods than GET too. */
  admitted = 0
  #refused = 0
  /** Of this window, of the answer before. */
  #resetMs: number | undefined
  /** Before it the window that this counts in has not ended, by the gateway's clock. */
  #goesOnUntilMs = Infinity

  /** key: undefined for none. */
  constructor(target: Target, key: string | undefined) {
    this.#target = target
    this.#key = key
  }

  get refusalsLeft(): number {
    return MOST_REFUSALS - this.#refused
  }

  /** Request line and the fields that each request has, without the empty line at the end. */
  head(method = 'GET', key = this.#key): string {
    const { url, path } = this.#target
    const credential = key === undefined ? '' : `\r\nAuthorization: Bearer ${key}`
    return `${method} ${path} HTTP/1.1\r\nHost: ${url.host}\r\nUser-Agent: tollgate-conformance\r\nAccept: */*${credential}`
  }

  told(answer: Answer, window: 'minute' | 'day' = 'minute'): Told {
    return toldOf(answer, window, this.#target.limits)
  }

  /** One after the other these take the same connection. */
  async ask(method: Method = 'GET', key = this.#key): Promise<KeyedAnswer> {
    const connection = await this.#connection()
    const head = this.head(method, key)
    const answer = await connection.ask(`${head}\r\n\r\n`, method === 'HEAD')
    this.#idle.push(connection)
    return this.#note(answer, method)
  }

  /** So many at once, each on a connection of its own, which are open by then. */
  async askAtOnce(count: number): Promise<KeyedAnswer[]> {
    if (count > this.refusalsLeft) throw new Unexpected('it was refused too often')
    this.#dropOld()
    while (this.#idle.length < count) this.#idle.push(await this.open())
    return Promise.all(Array.from({ length: count }, () => this.ask()))
  }

  /** A connection that the caller keeps. */
  async open(): Promise<Connection> {
    const connection = await Connection.open(this.#target.machine, this.#target.url)
    this.#all.push(connection)
    return connection
  }

  /** Until it was refused so often, or admitted as often as `most`; resolves with the last answer. */
  async exhaust(refusals: number, most: number): Promise<KeyedAnswer> {
    const until = this.#refused + refusals
    for (;;) {
      const answer = await this.ask()
      if (this.#refused >= until || this.admitted >= most) return answer
    }
  }

  /**
   * Begins to count, in a window of which only its first request may be gone, and that goes on for so long. The
   * running one, where it is told to be so, else the next.
   */
  async freshWindow(goesOnForMs: number): Promise<void> {
    const { clock, limits, machine } = this.#target
    const first = await this.ask()
    const { remaining, resetMs } = this.told(first)
    const leftMs = resetMs === undefined ? undefined : resetMs - clock.latest()
    if (!first.isRefused && remaining === limits.perMinute - 1 && leftMs !== undefined)
      if (leftMs > goesOnForMs && leftMs <= MINUTE_MS + 2_000) {
        this.admitted = 1
        this.#goesOnUntilMs = resetMs ?? Infinity
        return await sleep(machine, leftMs - (MINUTE_MS - SETTLED_MS))
      }
    await this.nextWindow()
    await sleep(machine, SETTLED_MS)
  }

  /** Behind the told end of this window, or where none is told a minute later. */
  async nextWindow(): Promise<void> {
    const { clock, machine } = this.#target
    const resetMs = this.#resetMs
    if (resetMs !== undefined) await clock.passed(resetMs)
    else await sleep(machine, MINUTE_MS + 1_000)
    this.admitted = 0
    this.#goesOnUntilMs = (resetMs ?? clock.latest()) + MINUTE_MS
  }

  /** Throws where the window that this counts in may have ended: two are counted as one then. */
  stillCounts(): void {
    if (this.#target.clock.latest() > this.#goesOnUntilMs)
      throw new Unexpected('too slow: the minute ended before it was counted')
  }

  /** Where the minute ends, as told last. */
  get toldResetMs(): number | undefined {
    return this.#resetMs
  }

  /** The same; a check that needs it cannot tell without. */
  get resetMs(): number {
    if (this.#resetMs === undefined) throw new Unexpected('no Reset of the minute is told')
    return this.#resetMs
  }

  /** Since the beginning, in all windows. */
  get everAdmitted(): number {
    return this.journal.filter(({ isRefused }) => !isRefused).length
  }

  close(): void {
    for (const connection of this.#all) connection.destroy()
  }

  async #connection(): Promise<Connection> {
    this.#dropOld()
    return this.#idle.pop() ?? (await this.open())
  }

  #dropOld(): void {
    for (const connection of this.#idle) if (connection.idleMs > REUSED_MS) connection.destroy()
    this.#idle = this.#idle.filter(({ isOpen }) => isOpen)
  }

  #note(answer: Answer, method: Method): KeyedAnswer {
    const isRefused = answer.status === 429
    const noted = { ...answer, method, isRefused }
    this.journal.push(noted)
    this.#target.clock.note(answer)
    if (isRefused && ++this.#refused > MOST_REFUSALS)
      throw new Unexpected('it was refused too often')
    const isOdd = answer.status >= 400 && !isRefused && method !== 'OPTIONS'
    if (isOdd && this.#key !== undefined) throw new Unexpected(`it was answered ${answer.status}`)
    if (!isRefused && answer.status < 400) this.admitted++
    const { resetMs } = this.told(answer)
    // A day that is used up speaks of its own end.
    if (resetMs !== undefined && resetMs - this.#target.machine.now() < 2 * MINUTE_MS)
      this.#resetMs = resetMs
    return noted
  }
}
