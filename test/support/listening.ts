import { once } from 'node:events'
import type { AddressInfo, Server, Socket } from 'node:net'
import { atEnd } from './ending.ts'

/** The port of 127.0.0.1 where the server listens from now on, a free one unless given. It ends with the file, and what is connected then. */
export async function listening(server: Server, port = 0): Promise<number> {
  const open = new Set<Socket>()
  server.on('connection', (socket) => {
    open.add(socket)
    socket.once('close', () => open.delete(socket))
  })
  await once(server.listen(port, '127.0.0.1'), 'listening')
  atEnd(() => {
    server.close()
    for (const socket of open) socket.destroy()
  })
  return (server.address() as AddressInfo).port
}
