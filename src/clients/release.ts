/** Frees the clients of a configuration that nobody asks any more. */
import { Worker } from 'node:worker_threads'
import type { Config } from '../config/config.ts'
import { Ring } from './ring.ts'

/** What is smaller is left to the collector. */
const LARGE_BYTES = 32 * 2 ** 20

/**
 * In a thread that takes the memory with it: freeing hundreds of megabytes here would hold up requests for some 20 ms,
 * and the collector would come late and let them pile up. A request that has begun holds its own caller.
 */
export const releaseClients = ({ clients }: Pick<Config, 'clients'>): void => {
  if (!(clients instanceof Ring) || clients.parts.buffer.byteLength < LARGE_BYTES) return
  const { buffer } = clients.parts
  new Worker('', { eval: true, workerData: buffer, transferList: [buffer] }).unref()
}
