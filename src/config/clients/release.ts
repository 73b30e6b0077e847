/** Frees the clients of a configuration that is no longer used. */
import { Worker } from 'node:worker_threads'
import type { Config } from '../config.ts'
import { columnBytes } from './columns.ts'

/** Smaller buffers are left to the garbage collector. */
const LARGE_BYTES = 32 * 2 ** 20

/** Memory is freed after this delay: longer than a request needs that has begun and whose token is still being verified. */
const AFTER_MS = 10_000

/** A table as bytes for another process. Valid until it is given back, once. */
export interface BorrowedTable {
  readonly bytes: Uint8Array
  giveBack(): void
}

/** How often each buffer is lent; it is freed only when it is not lent. */
const lent = new WeakMap<ArrayBuffer, number>()

export const borrowTable = (config: Pick<Config, 'clients'>): BorrowedTable => {
  const { buffer, counts } = config.clients.parts
  const count = (by: number): unknown => lent.set(buffer, (lent.get(buffer) ?? 0) + by)
  count(1)
  // A large buffer may be longer than what it holds.
  return { bytes: new Uint8Array(buffer, 0, columnBytes(counts)), giveBack: () => void count(-1) }
}

/**
 * Frees the memory in a thread: freeing hundreds of megabytes here would hold up requests for some 20 ms, and the garbage
 * collector would come late and let buffers pile up. A caller found before refers to nothing in it.
 */
export function releaseClients(config: Pick<Config, 'clients'>): void {
  const { buffer } = config.clients.parts
  setTimeout(() => {
    // After an earlier call it is gone already.
    if (buffer.byteLength < LARGE_BYTES) return
    if ((lent.get(buffer) ?? 0) > 0) return releaseClients(config)
    try {
      const thread = new Worker('', { eval: true, workerData: buffer, transferList: [buffer] })
      thread.on('error', () => undefined).unref()
    } catch {
      // The system has no thread to give; the memory is gone with the attempt.
    }
  }, AFTER_MS).unref()
}
