/**
 * The sockets that workers listen on. The supervisor binds them and keeps them open, and each worker inherits one: so
 * connections that wait in a socket's queue outlive the worker that was to take them, and a roll loses none. (A worker that
 * opened its own with SO_REUSEPORT would reset those in its queue when it closes it.) Where the platform has SO_REUSEPORT
 * there is one socket per worker and the kernel spreads connections over them; elsewhere all workers share one.
 */
import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'
import type { ListenAddress } from '../../config/config.ts'
import { bindSocket, type ListenSocket } from './node-internals.ts'

export type ListenSockets = Awaited<ReturnType<typeof openListenSockets>>

/** Rejects with Node's error if the address cannot be listened on, in use by others included. */
export async function openListenSockets(listen: ListenAddress) {
  // SO_REUSEPORT would share a port that is taken; asked for alone it is refused.
  const { host, port } = await probe(listen)
  const shared = bindsAgain(host, port) ? undefined : bindSocket({ host, port, reusePort: false })
  return {
    /** Numeric, with the port that port 0 became. */
    address: { host, port },
    /** The socket for a worker. */
    open: (): ListenSocket =>
      shared === undefined
        ? bindSocket({ host, port, reusePort: true })
        : { fd: shared.fd, close: () => undefined },
    close: () => shared?.close(),
  }
}

/** Listens for a moment, alone; resolves with the numeric address and the real port. */
async function probe({ host, port }: ListenAddress): Promise<ListenAddress> {
  const server = createServer((socket) => socket.destroy())
  await once(server.listen({ host, port, exclusive: true }), 'listening')
  const address = server.address() as AddressInfo
  await once(server.close(), 'close')
  return { host: address.address, port: address.port }
}

/** Whether the platform lets several sockets share the address. */
function bindsAgain(host: string, port: number): boolean {
  try {
    bindSocket({ host, port, reusePort: true }).close()
    return true
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOTSUP' || code === 'EOPNOTSUPP' || code === 'ENOPROTOOPT') return false
    throw error
  }
}
