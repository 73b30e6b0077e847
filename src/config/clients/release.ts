/** Frees the clients of a configuration that nobody asks any more. */
import { Worker } from 'node:worker_threads'
import type { Config } from '../config.ts'
import { columnBytes } from './columns.ts'
import { ringOf } from './plain-config.ts'
import { Ring } from './ring.ts'

/** What is smaller is left to the collector. */
const LARGE_BYTES = 32 * 2 ** 20

/** Longer than a request needs that had begun, and whose token is still being verified. */
const AFTER_MS = 10_000

/** All that a ring is to another process, with its header. Valid until it is given back, once. */
export interface BorrowedRing {
  readonly bytes: Uint8Array
  giveBack(): void
}

/** How often each is lent; freed only when it is not. */
const lent = new WeakMap<ArrayBuffer, number>()

export const borrowRing = (config: Pick<Config, 'clients'>): BorrowedRing => {
  const { buffer, counts } = ringOf(config).parts
  const count = (by: number): unknown => lent.set(buffer, (lent.get(buffer) ?? 0) + by)
  count(1)
  // A large buffer may be longer than what it holds.
  return { bytes: new Uint8Array(buffer, 0, columnBytes(counts)), giveBack: () => void count(-1) }
}

/**
 * In a thread that takes the memory with it: freeing hundreds of megabytes here would hold up requests for some 20 ms,
 * and the collector would come late and let them pile up. A caller that was found before holds nothing of it.
 */
export const releaseClients = ({ clients }: Pick<Config, 'clients'>): void => {
  if (clients instanceof Ring) releaseLater(clients.parts.buffer)
}

function releaseLater(buffer: ArrayBuffer): void {
  setTimeout(() => {
    // Told twice, it is gone already.
    if (buffer.byteLength < LARGE_BYTES) return
    if ((lent.get(buffer) ?? 0) > 0) return releaseLater(buffer)
    try {
      const thread = new Worker('', { eval: true, workerData: buffer, transferList: [buffer] })
      thread.on('error', () => undefined).unref()
    } catch {
      // The system has no thread to give; the memory is gone with the attempt.
    }
  }, AFTER_MS).unref()
}
