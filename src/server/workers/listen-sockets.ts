/**
 * The supervisor binds the sockets that workers listen on and keeps them open; each worker inherits one. So connections in
 * a socket's queue outlive the worker, and a rolling restart loses none. (A worker that opened its own socket with SO_REUSEPORT
 * would reset those in its queue when it closes it.) Where the platform has SO_REUSEPORT there is one socket per worker and
 * the kernel distributes connections; elsewhere all workers share one.
 */
import { once } from 'node:events'
import * as net from 'node:net'
import { getSystemErrorName } from 'node:util'
import type { ListenAddress } from '../../config/config.ts'

/** A bound socket that does not listen in this process. */
export interface ListenSocket {
  readonly fd: number
  /** Closes the socket; must be called at most once. */
  close(): void
}

export type ListenSockets = Awaited<ReturnType<typeof openListenSockets>>

/** Rejects with Node's error if the address cannot be listened on, for example because it is in use. */
export async function openListenSockets(listen: ListenAddress) {
  // With SO_REUSEPORT the bind would share a port that is in use; an exclusive one fails.
  const { host, port } = await probe(listen)
  const shared = bindsAgain(host, port) ? undefined : bind(host, port, false)
  return {
    /** Numeric address, with the port that port 0 became. */
    address: { host, port },
    open: (): ListenSocket =>
      shared === undefined ? bind(host, port, true) : { fd: shared.fd, close: () => undefined },
    close: () => shared?.close(),
  }
}

/** Listens exclusively for a moment; resolves with the numeric address and the real port. */
async function probe({ host, port }: ListenAddress): Promise<ListenAddress> {
  const server = net.createServer((socket) => socket.destroy())
  await once(server.listen({ host, port, exclusive: true }), 'listening')
  const address = server.address() as net.AddressInfo
  await once(server.close(), 'close')
  return { host: address.address, port: address.port }
}

/** Reports whether the platform lets several sockets share the address. */
function bindsAgain(host: string, port: number): boolean {
  try {
    bind(host, port, true).close()
    return true
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOTSUP' || code === 'EOPNOTSUPP' || code === 'ENOPROTOOPT') return false
    throw error
  }
}

interface BoundHandle extends ListenSocket {
  /** Returns 0 or a negative error number. */
  getsockname(address: object): number
}

// BoundSocket is documented since Node.js 26.4; older versions have the undocumented function that node:cluster uses.
const { BoundSocket, _createServerHandle: createServerHandle } = net as {
  readonly BoundSocket?: typeof net.BoundSocket
  readonly _createServerHandle?: (
    ...binding: [host: string, port: number, family: 4 | 6, fd: -1, flags: number]
  ) => BoundHandle | number
}
const UV_TCP_REUSEPORT = 2

/** Throws Node's error if the address cannot be bound. */
function bind(host: string, port: number, reusePort: boolean): ListenSocket {
  if (BoundSocket !== undefined) {
    const socket = new BoundSocket({ host, port, reusePort })
    return { fd: socket.fd(), close: () => socket.close() }
  }
  if (createServerHandle === undefined)
    throw new Error('this Node.js cannot bind a socket for workers; write server.workers: 1')
  const flags = reusePort ? UV_TCP_REUSEPORT : 0
  const handle = createServerHandle(host, port, net.isIPv6(host) ? 6 : 4, -1, flags)
  // An address in use shows only at the first call after the bind.
  const fault = typeof handle === 'number' ? handle : handle.getsockname({})
  if (typeof handle === 'number' || fault !== 0)
    throw Object.assign(new Error(`bind ${host}:${port}`), { code: getSystemErrorName(fault) })
  return handle
}
