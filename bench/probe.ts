/** Loaded into a Node.js process with --expose-gc --import: tells on loopback what V8 has allocated and, asked for /heap, what of it lives. */
import { createServer } from 'node:http'
import { getHeapStatistics } from 'node:v8'
import { isMainThread } from 'node:worker_threads'
import { announce } from './own-process.ts'

export interface ProbeAnswer {
  /** Bytes that V8 has allocated since the process started. */
  readonly allocatedBytes: number
  /** Bytes of live objects and of what they hold outside of the heap, right after a full collection. */
  readonly heapBytes?: number
}

const server = createServer(({ url }, response) => {
  const { total_allocated_bytes: allocatedBytes } = getHeapStatistics() as unknown as {
    readonly total_allocated_bytes: number
  }
  response.setHeader('Connection', 'close')
  response.end(JSON.stringify({ allocatedBytes, ...(url === '/heap' && liveBytes()) }))
})

function liveBytes(): { readonly heapBytes: number } {
  globalThis.gc?.()
  globalThis.gc?.()
  const { heapUsed, external } = process.memoryUsage()
  return { heapBytes: heapUsed + external }
}

// A thread of the process loads this file too.
if (isMainThread) server.listen(0, '127.0.0.1', () => announce('probe', server)).unref()
