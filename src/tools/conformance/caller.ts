/** A client with one API key: it sends requests, keeps the answers, and never causes more than ten refusals. */
import { MINUTE_MS, type WindowName } from '../../config/time.ts'
import { Connection, Unexpected, type Answer } from './connection.ts'
import { sleep, type GatewayClock, type Machine } from './machine.ts'
import { windowOf, type Limits, type WindowState } from './standing.ts'

/** A gateway may take more for an attack. */
const MOST_REFUSALS = 10
/** Pause at the start of a window. Only the checks of edges send then: what happens there is their finding. */
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
  /** Requests of any method that were admitted in the counted window. */
  admitted = 0
  #refused = 0
  /** End of the minute as last reported, Unix time in ms. */
  lastResetMs: number | undefined
  /** The counted window lasts at least until then, by the gateway's clock, if it tells when its windows end. */
  countsUntilMs = Infinity

  /** key: undefined sends no credential. */
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

  reported(answer: Answer, window: WindowName = 'minute'): WindowState {
    return windowOf(answer, window, this.#target.limits)
  }

  /** Sends one request; requests one after the other share a connection. */
  async ask(method: Method = 'GET', key = this.#key): Promise<KeyedAnswer> {
    const connection = await this.#connection()
    const head = this.head(method, key)
    const answer = await connection.ask(`${head}\r\n\r\n`, method === 'HEAD')
    this.#idle.push(connection)
    return this.#note(answer, method)
  }

  /** Sends `count` requests at once, each on its own connection; all are opened before. */
  async askAtOnce(count: number): Promise<KeyedAnswer[]> {
    if (count > this.refusalsLeft) throw new Unexpected('it was refused too often')
    this.#dropOld()
    while (this.#idle.length < count) this.#idle.push(await this.open())
    return Promise.all(Array.from({ length: count }, () => this.ask()))
  }

  /** Opens a connection, which close() ends. */
  async open(): Promise<Connection> {
    const connection = await Connection.open(this.#target.machine, this.#target.url)
    this.#all.push(connection)
    return connection
  }

  /** Sends requests until `refusals` more are refused, or `most` are admitted in the window; resolves with the last answer. */
  async exhaust(refusals: number, most: number): Promise<KeyedAnswer> {
    const until = this.#refused + refusals
    for (;;) {
      const answer = await this.ask()
      if (this.#refused >= until || this.admitted >= most) return answer
    }
  }

  /**
   * Begins to count in a window that has more than `timeLeftMs` left and has admitted at most one request: in the running
   * one if its fields prove that, else in the next.
   */
  async freshWindow(timeLeftMs: number): Promise<void> {
    const { clock, limits, machine } = this.#target
    const first = await this.ask()
    const { remaining, resetMs } = this.reported(first)
    const leftMs = resetMs === undefined ? undefined : resetMs - clock.latest()
    if (!first.isRefused && remaining === limits.perMinute - 1 && leftMs !== undefined)
      if (leftMs > timeLeftMs && leftMs <= MINUTE_MS + 2_000) {
        this.admitted = 1
        this.countsUntilMs = resetMs ?? Infinity
        return await sleep(machine, leftMs - (MINUTE_MS - SETTLED_MS))
      }
    await this.nextWindow()
    await sleep(machine, SETTLED_MS)
  }

  /** Waits for the reported end of this window, or for a minute if none is reported. */
  async nextWindow(): Promise<void> {
    const { clock, machine } = this.#target
    const resetMs = this.lastResetMs
    if (resetMs !== undefined) await clock.passed(resetMs)
    else await sleep(machine, MINUTE_MS + 1_000)
    this.admitted = 0
    this.countsUntilMs = (resetMs ?? clock.latest()) + MINUTE_MS
  }

  /** Throws if the counted window may have ended: two windows would be counted as one. */
  stillCounts(): void {
    if (this.#target.clock.latest() > this.countsUntilMs)
      throw new Unexpected('too slow: the minute ended before it was counted')
  }

  /** End of the minute as last reported. Throws if none was. */
  get resetMs(): number {
    if (this.lastResetMs === undefined) throw new Unexpected('no Reset of the minute is told')
    return this.lastResetMs
  }

  /** Requests that were not refused, in all windows. */
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
    const { resetMs } = this.reported(answer)
    // When the day is used up, Reset is the end of the day.
    if (resetMs !== undefined && resetMs - this.#target.machine.now() < 2 * MINUTE_MS)
      this.lastResetMs = resetMs
    return noted
  }
}
