/** Frees the clients of a configuration that nobody asks any more. */
import { Worker } from 'node:worker_threads'
import type { Config } from '../config/config.ts'
import { Ring } from './ring.ts'

/** What is smaller is left to the collector. */
const LARGE_BYTES = 32 * 2 ** 20

/** Longer than a request needs that had begun, and whose token is still being verified. */
const AFTER_MS = 10_000

/**
 * In a thread that takes the memory with it: freeing hundreds of megabytes here would hold up requests for some 20 ms,
 * and the collector would come late and let them pile up. A caller that was found before holds nothing of it.
 */
export const releaseClients = ({ clients }: Pick<Config, 'clients'>): void => {
  if (!(clients instanceof Ring)) return
  const { buffer } = clients.parts
  setTimeout(() => {
    // Told twice, it is gone already.
    if (buffer.byteLength < LARGE_BYTES) return
    new Worker('', { eval: true, workerData: buffer, transferList: [buffer] }).unref()
  }, AFTER_MS).unref()
}
