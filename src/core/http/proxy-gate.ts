/** Reads the PROXY header that a load balancer sends first on a connection. */
import type { Socket } from 'node:net'
import { readProxyHeader, type ProxyHeader } from '../rules/proxy-header.ts'

/** done: called once; undefined: no valid header came in time. Later bytes are put back, and the connection is paused. */
export function awaitProxyHeader(
  transport: Socket,
  timeoutMs: number,
  done: (header: ProxyHeader | undefined) => void,
): void {
  let bytes: Buffer = Buffer.alloc(0)
  const end = (header: ProxyHeader | undefined): void => {
    clearTimeout(timer)
    transport.pause().off('data', onData)
    for (const event of ['end', 'error', 'close']) transport.off(event, onGone)
    if (header !== undefined && bytes.length > header.bytes)
      transport.unshift(bytes.subarray(header.bytes))
    done(header)
  }
  const onData = (chunk: Buffer): void => {
    bytes = bytes.length === 0 ? chunk : Buffer.concat([bytes, chunk])
    const header = readProxyHeader(bytes)
    if (header !== 'incomplete') end(header)
  }
  const onGone = (): void => end(undefined)
  const timer = setTimeout(onGone, timeoutMs)
  transport.on('data', onData)
  for (const event of ['end', 'error', 'close']) transport.on(event, onGone)
}
