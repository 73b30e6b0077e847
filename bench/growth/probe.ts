/** Loaded into a gateway with --expose-gc --import: tells its heap after a garbage collection to who asks on loopback. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface ProbeAnswer {
  /** Of live objects, right after a full collection. */
  readonly heapBytes: number
  /** Memory outside V8's heap that its objects hold, buffers included. */
  readonly externalBytes: number
}

const server = createServer((_request, response) => {
  globalThis.gc?.()
  globalThis.gc?.()
  const { heapUsed, external } = process.memoryUsage()
  response.setHeader('Connection', 'close')
  response.end(
    JSON.stringify({ heapBytes: heapUsed, externalBytes: external } satisfies ProbeAnswer),
  )
})

server.listen(0, '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo
  console.log(`probe listening on http://127.0.0.1:${port}`)
})
server.unref()
