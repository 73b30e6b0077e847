/** Listens as a backend does, and hands on what each connection brings. */
import { createServer, type Socket } from 'node:net'
import { listening } from '../support/listening.ts'
import type { RequestReader } from '../support/strict-request-reader.ts'

export async function startStrictBackend(
  readerOf: (socket: Socket) => Pick<RequestReader, 'push' | 'end'>,
): Promise<string> {
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
    const reader = readerOf(socket)
    socket.on('data', reader.push)
    socket.on('end', () => {
      reader.end()
      socket.end()
    })
    socket.on('error', () => {})
  })
  return `http://127.0.0.1:${await listening(server)}`
}
