/**
 * Sends the clients from the supervisor to a worker: through a pipe beside the IPC channel, which would hold copies of them
 * all in both processes, and delay other messages. A client table goes in pieces; one that is given up just ends.
 */
import type { ChildProcess } from 'node:child_process'
import { Socket } from 'node:net'
import type { Writable } from 'node:stream'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { newBuffer } from '../../config/clients/columns.ts'
import { borrowTable, type BorrowedTable } from '../../config/clients/release.ts'
import type { Config } from '../../config/config.ts'

/** Descriptor of the worker's end. */
const TABLES_FD = 5

/** Tables are numbered by their round; this is the table that a worker starts with. */
export const START_TABLE = 0

const PIECE_BYTES = 256 * 1024
const READ_BYTES = 64 * 1024

/** Head of each piece: the number of its table and its own bytes, 32 bits each, and the bytes of the table as a double. */
const HEAD_BYTES = 16

/** The supervisor's end. However slow a worker is, no more than one piece is kept for it. */
export class TableSender {
  /** undefined: the system had no process to give. */
  readonly #pipe: Writable | undefined
  /** Tables still to be sent, by number. Written by send and giveUp. */
  readonly #wanted = new Map<number, BorrowedTable>()
  /** The send of the last table; never rejects. Written by send. */
  #sent: Promise<void> = Promise.resolve()

  constructor(worker: ChildProcess) {
    const stdio = worker.stdio as readonly unknown[] | undefined
    this.#pipe = stdio?.[TABLES_FD] as Writable | undefined
    // The worker has ended, which its exit reports.
    this.#pipe?.on('error', () => undefined)
    worker.on('exit', () => this.close())
  }

  /** Sends a table after those before it. Resolves when it was handed over or given up; never rejects. */
  send(number: number, config: Config): Promise<void> {
    this.#wanted.set(number, borrowTable(config))
    return (this.#sent = this.#sent.then(() => this.#send(number)))
  }

  giveUp(number: number): void {
    this.#wanted.get(number)?.giveBack()
    this.#wanted.delete(number)
  }

  /** Gives up all tables and sends nothing more. */
  close(): void {
    for (const number of this.#wanted.keys()) this.giveUp(number)
    this.#pipe?.destroy()
  }

  async #send(number: number): Promise<void> {
    const piece = Buffer.allocUnsafeSlow(HEAD_BYTES + PIECE_BYTES)
    piece.writeUInt32LE(number, 0)
    for (let at = 0; ; at += PIECE_BYTES) {
      const table = this.#wanted.get(number)?.bytes
      if (table === undefined) return
      if (at >= table.length) return this.giveUp(number)
      const part = table.subarray(at, at + PIECE_BYTES)
      piece.writeUInt32LE(part.length, 4)
      piece.writeDoubleLE(table.length, 8)
      // This is a copy: what the kernel is still to take must not be freed with the table.
      piece.set(part, HEAD_BYTES)
      await this.#write(piece.subarray(0, HEAD_BYTES + part.length))
      // Calls of workers are answered between two pieces.
      await nextTurn()
    }
  }

  /** Resolves when the bytes were taken, or never will be. */
  #write(bytes: Uint8Array): Promise<void> {
    return new Promise((resolve) => {
      const taken = (error?: Error | null): void => {
        if (error) this.close()
        resolve()
      }
      if (this.#pipe === undefined) taken(new Error('no process'))
      else this.#pipe.write(bytes, taken)
    })
  }
}

/** A worker's end. */
export class TableReader {
  /** Tables that are asked for, or that are here and not asked for yet. */
  readonly #tables = new Map<number, PromiseWithResolvers<ArrayBuffer>>()
  /** The latest round that was given up, with all before it: their tables are dropped. Written by giveUp. */
  #givenUp = START_TABLE
  readonly #head = Buffer.alloc(HEAD_BYTES)
  /** Bytes read of the head, and unread of its piece. Written by take. */
  #headBytes = 0
  #unreadBytes = 0
  /** Written by #begin, #fill and giveUp. */
  #current: { readonly number: number; readonly bytes: Uint8Array; filled: number } | undefined

  /** Opens the pipe; it is read without further calls, and keeps no process alive. */
  static open(): TableReader {
    const reader = new TableReader()
    const buffer = Buffer.allocUnsafeSlow(READ_BYTES)
    const callback = (length: number): boolean => {
      reader.take(buffer.subarray(0, length))
      return true
    }
    // The IPC channel notices a supervisor that is gone.
    new Socket({ fd: TABLES_FD, readable: true, writable: false, onread: { buffer, callback } })
      .on('error', () => undefined)
      .unref()
    return reader
  }

  /** Resolves once the table is here whole; rejects if it is given up. Called once per table. */
  async table(number: number): Promise<ArrayBuffer> {
    if (this.#isGivenUp(number)) throw new Error('was given up')
    return this.#at(number).promise.finally(() => this.#tables.delete(number))
  }

  giveUp(round: number): void {
    this.#givenUp = round
    if (this.#current?.number === round) this.#current = undefined
    this.#tables.get(round)?.reject(new Error('was given up'))
    this.#tables.delete(round)
  }

  /** Takes bytes of the pipe, however they are cut. */
  take(bytes: Buffer): void {
    let at = 0
    while (at < bytes.length) {
      if (this.#headBytes < HEAD_BYTES) {
        const read = bytes.copy(this.#head, this.#headBytes, at)
        at += read
        this.#headBytes += read
        if (this.#headBytes < HEAD_BYTES) return
        this.#begin()
      }
      const part = bytes.subarray(at, at + this.#unreadBytes)
      at += part.length
      this.#unreadBytes -= part.length
      this.#fill(part)
      if (this.#unreadBytes === 0) this.#headBytes = 0
    }
  }

  #begin(): void {
    const number = this.#head.readUInt32LE(0)
    this.#unreadBytes = this.#head.readUInt32LE(4)
    if (this.#isGivenUp(number) || this.#current?.number === number) return
    const length = this.#head.readDoubleLE(8)
    const buffer = newBuffer(length)
    this.#current = { number, bytes: new Uint8Array(buffer, 0, length), filled: 0 }
  }

  #fill(part: Uint8Array): void {
    const table = this.#current
    if (table === undefined) return
    table.bytes.set(part, table.filled)
    table.filled += part.length
    if (table.filled < table.bytes.length) return
    this.#current = undefined
    this.#at(table.number).resolve(table.bytes.buffer as ArrayBuffer)
  }

  #at(number: number): PromiseWithResolvers<ArrayBuffer> {
    const table = this.#tables.get(number) ?? Promise.withResolvers<ArrayBuffer>()
    this.#tables.set(number, table)
    return table
  }

  #isGivenUp(number: number): boolean {
    return number !== START_TABLE && number <= this.#givenUp
  }
}
