/** One connection to the gateway under test: exact bytes out, whole answers in. */
import type { Duplex } from 'node:stream'
import type { AnswerHead } from '../../core/http/answer-head.ts'
import { AnswerReader } from '../../core/http/answer-reader.ts'
import type { Machine } from './machine.ts'

/** Of a connection, and of an answer. */
export const TIMEOUT_MS = 15_000
const HEAD_BYTES = 65_536

export interface Answer {
  readonly status: number
  /** Flat name, value array as received. */
  readonly headers: readonly string[]
  readonly body: string
  /** By this machine's clock. */
  readonly sentMs: number
  readonly receivedMs: number
}

/** What a check does not count with, so that it cannot tell: no answer, or one that is neither yes nor the gateway's no. */
export class Unexpected extends Error {}

export class Connection {
  readonly #socket: Duplex
  readonly #machine: Machine
  /** All that have come, in order. */
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
  /** Why it carries no further request. */
  #over: string | undefined
  isClosed = false
  #heard = (): void => undefined

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
      // Byte by byte where several answers may come at once: the reader drops what lies behind the end of one.
      const step = this.#isSingle ? bytes.length : 1
      for (let at = 0; at < bytes.length; at += step)
        this.#reader.read(bytes.subarray(at, at + step), step)
      this.#heard()
    })
    for (const event of ['end', 'close'] as const) socket.on(event, () => this.destroy())
  }

  /** Since it was opened, or answered last. */
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

  /** Resolves once it holds, or after this time. */
  until(condition: () => boolean, timeoutMs: number): Promise<void> {
    return new Promise((resolve) => {
      const forget = this.#machine.after(timeoutMs, resolve)
      this.#heard = () => {
        if (!condition()) return
        forget()
        resolve()
      }
      this.#heard()
    })
  }

  destroy(): void {
    if (this.isClosed) return
    this.isClosed = true
    // What has no length ends with the connection.
    this.#reader.end()
    this.#socket.destroy()
    this.#heard()
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
