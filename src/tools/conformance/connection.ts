/** A connection to the gateway under test: it sends exact bytes and receives whole answers. */
import type { Duplex } from 'node:stream'
import { AnswerReader } from '../../core/http/answer-reader.ts'
import type { Machine } from './machine.ts'

/** Limit for opening a connection, and for an answer. */
export const TIMEOUT_MS = 15_000
const HEAD_BYTES = 65_536

export interface Answer {
  readonly status: number
  /** Names and values in turn, as received. */
  readonly headers: readonly string[]
  readonly body: string
  /** Unix time in ms by this machine's clock. */
  readonly sentMs: number
  readonly receivedMs: number
}

/** A check cannot judge, for example because no answer came, or one that neither admits nor refuses. */
export class Unexpected extends Error {}

export class Connection {
  readonly #socket: Duplex
  readonly #machine: Machine
  /** All answers so far, in order. */
  readonly answers: Answer[] = []
  readonly #reader = new AnswerReader(HEAD_BYTES)
  readonly #body: Buffer[] = []
  readonly #openedMs: number
  #sentMs = 0
  /** Why the connection carries no further request. */
  #over: string | undefined
  isClosed = false
  #onChange = (): void => undefined

  static async open(machine: Machine, url: URL): Promise<Connection> {
    try {
      return new Connection(machine, await machine.connect(url, TIMEOUT_MS))
    } catch (error) {
      throw new Unexpected(`no connection: ${(error as Error).message}`, { cause: error })
    }
  }

  private constructor(machine: Machine, socket: Duplex) {
    this.#machine = machine
    this.#openedMs = machine.now()
    this.#socket = socket.on('error', () => undefined)
    socket.on('data', (bytes: Buffer) => {
      this.#reader.add(bytes)
      this.#read()
      this.#onChange()
    })
    for (const event of ['end', 'close'] as const) socket.on(event, () => this.destroy())
  }

  /** Time since the last answer, or since the connection was opened. */
  get idleMs(): number {
    return this.#machine.now() - (this.answers.at(-1)?.receivedMs ?? this.#openedMs)
  }

  get isOpen(): boolean {
    return this.#over === undefined && !this.isClosed
  }

  /** Sends one request, as latin1; resolves with its answer. */
  async ask(bytes: string, isHead: boolean): Promise<Answer> {
    const before = this.answers.length
    this.send(bytes, isHead)
    await this.until(() => this.answers.length > before || !this.isOpen, TIMEOUT_MS)
    const answer = this.answers[before]
    if (answer !== undefined) return answer
    this.destroy()
    throw new Unexpected(`no answer: ${this.#over ?? 'the connection was closed, or too slow'}`)
  }

  send(bytes: string, isHead = false): void {
    this.#reader.isToHead = isHead
    this.#sentMs = this.#machine.now()
    this.#socket.write(bytes, 'latin1')
  }

  /** Resolves once the condition holds, or after `timeoutMs`. */
  until(condition: () => boolean, timeoutMs: number): Promise<void> {
    return new Promise((resolve) => {
      const cancel = this.#machine.after(timeoutMs, resolve)
      this.#onChange = () => {
        if (!condition()) return
        cancel()
        resolve()
      }
      this.#onChange()
    })
  }

  destroy(): void {
    if (this.isClosed) return
    this.isClosed = true
    // An answer without a length ends with the connection.
    if (this.#over === undefined && this.#reader.endsWithConnection) this.#take()
    this.#socket.destroy()
    this.#onChange()
  }

  #read(): void {
    while (this.#over === undefined) {
      const found = this.#reader.next()
      if (found === 'more') return
      if (found === 'fault') this.#over = this.#reader.fault.cause ?? 'not HTTP/1.1'
      else if (found === 'piece') this.#body.push(this.#reader.piece)
      else if (found === 'end') this.#take()
    }
  }

  #take(): void {
    const { head, persists } = this.#reader
    if (head === undefined) return
    this.answers.push({
      status: head.status,
      headers: head.headers,
      body: Buffer.concat(this.#body.splice(0)).toString(),
      sentMs: this.#sentMs,
      receivedMs: this.#machine.now(),
    })
    if (!persists) this.#over = 'it was the last'
  }
}
