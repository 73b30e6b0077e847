/** Listens as a backend does, and hands on what each connection brings. */
import { createServer, type AddressInfo, type Socket } from 'node:net'
import { atEnd } from '../support/ending.ts'
import type { RequestReader } from '../support/strict-request-reader.ts'

export async function startStrictBackend(
  readerOf: (socket: Socket) => Pick<RequestReader, 'push' | 'end'>,
): Promise<string> {
  const sockets = new Set<Socket>()
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
    sockets.add(socket)
    const reader = readerOf(socket)
    socket.on('data', reader.push)
    socket.on('end', () => {
      reader.end()
      socket.end()
    })
    socket.on('error', () => {})
    socket.on('close', () => sockets.delete(socket))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  atEnd(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}
