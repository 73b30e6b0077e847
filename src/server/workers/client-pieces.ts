/**
 * The clients of a configuration go to a worker in pieces, as messages among others: sent whole, both processes would hold
 * copies of them all, and other messages would wait for them. The message that names the configuration follows the last piece.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { newBuffer } from '../../config/clients/columns.ts'
import { borrowTable } from '../../config/clients/release.ts'
import type { Config } from '../../config/config.ts'

export interface ClientPiece {
  readonly kind: 'clients'
  /** Round of the configuration; see START_ROUND. */
  readonly round: number
  /** Size of the whole table. */
  readonly tableBytes: number
  /** Offset of this piece in it. */
  readonly at: number
  readonly bytes: Uint8Array
}

/** Round of the configuration that a worker starts with. */
export const START_ROUND = 0

const PIECE_BYTES = 256 * 1024

interface PieceParts {
  /** Resolves when the piece was handed over, or cannot be; never rejects. */
  send(piece: ClientPiece): Promise<unknown>
  /** false: the rest is not sent. */
  isWanted(): boolean
}

/** Sends all clients, and no more than one piece at a time, however slow the worker is. Resolves with whether they are still wanted; never rejects. */
export async function sendClients(
  config: Config,
  round: number,
  { send, isWanted }: PieceParts,
): Promise<boolean> {
  if (!isWanted()) return false
  const { bytes, giveBack } = borrowTable(config)
  for (let at = 0; at < bytes.length && isWanted(); at += PIECE_BYTES) {
    const piece = bytes.subarray(at, at + PIECE_BYTES)
    await send({ kind: 'clients', round, tableBytes: bytes.length, at, bytes: piece })
    // Calls of workers are answered between two pieces.
    await nextTurn()
  }
  giveBack()
  return isWanted()
}

/** Puts the pieces together in the worker that receives them. */
export class ClientPieces {
  /** The table that is on its way. Written by add, take and giveUp. */
  #table: { readonly round: number; readonly bytes: Uint8Array<ArrayBuffer> } | undefined

  add({ round, tableBytes, at, bytes }: ClientPiece): void {
    if (at === 0) {
      const buffer = newBuffer(tableBytes)
      this.#table = { round, bytes: new Uint8Array(buffer, 0, tableBytes) }
    }
    this.#table?.bytes.set(bytes, at)
  }

  /** Returns the table, whose last piece is here. */
  take(): ArrayBuffer {
    const table = this.#table
    this.#table = undefined
    return table?.bytes.buffer ?? new ArrayBuffer(0)
  }

  /** Drops the pieces of a round that was given up. */
  giveUp(round: number): void {
    if (this.#table?.round === round) this.#table = undefined
  }
}
