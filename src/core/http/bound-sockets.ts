/**
 * The supervisor binds the sockets that workers listen on and keeps them open; each worker inherits one. So connections in
 * a socket's queue outlive the worker, and a rolling restart loses none. (A worker that opened its own socket with SO_REUSEPORT
 * would reset those in its queue when it closes it.) Where the platform has SO_REUSEPORT there is one socket per worker and
 * the kernel distributes connections; elsewhere all workers share one.
 */
import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'
import type { ListenAddress } from '../../config/config.ts'
import { bindSocket, type ListenSocket } from './node-internals.ts'

export type ListenSockets = Awaited<ReturnType<typeof openListenSockets>>

/** Rejects with Node's error if the address cannot be listened on, for example because it is in use. */
export async function openListenSockets(listen: ListenAddress) {
  // With SO_REUSEPORT the bind would share a port that is in use; an exclusive one fails.
  const { host, port } = await probe(listen)
  const shared = bindsAgain(host, port) ? undefined : bindSocket({ host, port, reusePort: false })
  return {
    /** Numeric address, with the port that port 0 became. */
    address: { host, port },
    /** Returns a socket for one worker. */
    open: (): ListenSocket =>
      shared === undefined
        ? bindSocket({ host, port, reusePort: true })
        : { fd: shared.fd, close: () => undefined },
    close: () => shared?.close(),
  }
}

/** Listens exclusively for a moment; resolves with the numeric address and the real port. */
async function probe({ host, port }: ListenAddress): Promise<ListenAddress> {
  const server = createServer((socket) => socket.destroy())
  await once(server.listen({ host, port, exclusive: true }), 'listening')
  const address = server.address() as AddressInfo
  await once(server.close(), 'close')
  return { host: address.address, port: address.port }
}

/** Reports whether the platform lets several sockets share the address. */
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
