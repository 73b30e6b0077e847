/**
 * The public listener. Only a net.Server listens: a connection is counted, or refused, before a byte of it is parsed, and
 * then handed to the server of its protocol.
 */
import { once } from 'node:events'
import { createServer, type AddressInfo, type Socket } from 'node:net'
import type { Config, ListenAddress } from '../config/config.ts'
import type { Entry } from './connections.ts'
import { readPreface } from './h2-preface.ts'
import { createHttp1Server, type Http1Events, type ProtocolServer } from './http1-server.ts'

export interface PublicServerEvents extends Http1Events {
  /** A connection that was accepted; undefined if it may not stay, and was closed. */
  enter(transport: Socket): Entry | undefined
  /** Its peer is a trusted proxy. */
  isTrusted(transport: Socket): boolean
}

export type PublicServer = ReturnType<typeof createPublicServer>

export function createPublicServer(
  config: Config,
  events: PublicServerEvents,
  http2: ProtocolServer,
) {
  let current = config.server
  const http1 = createHttp1Server(config, events)
  // As http would: a client that ends its side still gets its answers.
  const options = { allowHalfOpen: true, noDelay: true }
  const server = createServer(options, (transport) => {
    const entry = events.enter(transport)
    if (entry === undefined) return
    const { http2: spoken, timeouts } = current
    if (spoken !== 'clear' || !events.isTrusted(transport)) return http1.take(transport, entry)
    readPreface(transport, timeouts.headersMs, (isHttp2) =>
      (isHttp2 ? http2 : http1).take(transport, entry),
    )
  })
  return {
    /** From here on by this configuration; where it listens stays. */
    use(next: Config): void {
      current = next.server
      http1.use(next)
      http2.use(next)
    },
    /** fd: a bound socket of this process to listen on, instead of server.listen. */
    async listen(fd?: number): Promise<ListenAddress> {
      const { listen } = config.server
      server.listen(fd === undefined ? { ...listen } : { fd })
      await once(server, 'listening')
      return { host: listen.host, port: (server.address() as AddressInfo).port }
    },
    /**
     * Stops accepting; resolves when the last connection has gone. Connections that wait for a next request are closed
     * after idleMs, those without any request yet included: a client may be sending one at this very moment.
     */
    stop: (idleMs: number) =>
      new Promise<void>((resolve) => {
        const closeIdle = setTimeout(http1.closeIdle, idleMs)
        server.close(() => {
          clearTimeout(closeIdle)
          http1.close()
          http2.close()
          resolve()
        })
        if (idleMs === 0) http1.closeIdle()
        // Its clients are told, and lose nothing: what crosses that on its way is refused as not begun (RFC 9113 6.8).
        http2.closeIdle()
      }),
    /** Closes connections that wait for a next request. */
    closeIdle: http1.closeIdle,
    /** Destroys what is left. */
    destroy: () => {
      http1.destroy()
      http2.destroy()
    },
  }
}
