/** A connection to the gateway under test: it sends exact bytes and receives whole answers. */
import type { Duplex } from 'node:stream'
import type { AnswerHead } from '../../core/http/answer-reader.ts'
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
  readonly #reader = new AnswerReader(
    {
      onHead: (head) => void (this.#head = head),
      onBody: (piece) => void this.#body.push(piece),
      onAnswerEnd: () => this.#take(),
      onBroken: (cause) => void (this.#over ??= cause),
    },
    HEAD_BYTES,
  )
  #head: AnswerHead | undefined
  readonly #body: Buffer[] = []
  readonly #openedMs: number
  #isSingle = false
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
      // Where several answers may come at once, bytes are read one by one: the reader drops what follows the end of an answer.
      const step = this.#isSingle ? bytes.length : 1
      for (let at = 0; at < bytes.length; at += step)
        this.#reader.read(bytes.subarray(at, at + step), step)
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
    this.#isSingle = true
    this.send(bytes, isHead)
    await this.until(() => this.answers.length > before || !this.isOpen, TIMEOUT_MS)
    const answer = this.answers[before]
    if (answer !== undefined) return answer
    this.destroy()
    throw new Unexpected(`no answer: ${this.#over ?? 'the connection was closed, or too slow'}`)
  }

  send(bytes: string, isHead = false): void {
    this.#reader.expect(isHead)
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
    this.#reader.end()
    this.#socket.destroy()
    this.#onChange()
  }

  #take(): void {
    if (this.#head === undefined) return
    const { status, headers, persists } = this.#head
    const body = Buffer.concat(this.#body.splice(0)).toString()
    this.answers.push({
      status,
      headers,
      body,
      sentMs: this.#sentMs,
      receivedMs: this.#machine.now(),
    })
    if (!persists) this.#over = 'it was the last'
    else if (!this.#isSingle) this.#reader.expect(false)
  }
}
