/** Which pieces of bodies lose their memory once they have been written. */
import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import { expect, it } from 'vitest'
import { freeWhenWritten } from '../../../src/core/http/head-writer.ts'
import { MessageReader } from '../../../src/core/http/message-reader.ts'
import { requestSyntax } from '../../../src/core/http/request-head.ts'

const piece = (bytes: number): Buffer => Buffer.from(new Uint8Array(bytes).fill(7).buffer)

it('frees a piece of its own when the socket has taken it, and not before', async () => {
  const server = createServer((socket) => void socket.resume().once('end', () => socket.end()))
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const socket = connect(server.address() as { port: number })
  await once(socket, 'connect')
  // More than the kernel takes at once.
  const pieces = Array.from({ length: 100 }, () => piece(256 * 1024))
  for (const one of pieces) socket.write(one, freeWhenWritten(one))
  expect(pieces.at(-1)).toHaveLength(256 * 1024)
  socket.end()
  await once(socket.resume(), 'close')
  expect(pieces.map(({ length }) => length)).toEqual(pieces.map(() => 0))
  expect(socket.bytesWritten).toBe(100 * 256 * 1024)
  server.close()
})

it('leaves what is part of a larger block, and what could not be written', () => {
  expect(freeWhenWritten(piece(8).subarray(1))).toBeUndefined()
  expect(freeWhenWritten(Buffer.from('of the pool'))).toBeUndefined()
  const kept = piece(8)
  freeWhenWritten(kept)?.(new Error('away'))
  expect(kept).toHaveLength(8)
  freeWhenWritten(kept)?.(null)
  expect(kept).toHaveLength(0)
})

it('are kept by no reader, which may be stopped behind them', () => {
  const reader = new MessageReader(1_000, requestSyntax)
  reader.add(Buffer.from('POST / HTTP/1.1\r\n\r\n'))
  expect(reader.next()).toBe('head')
  reader.frame({ body: 'length', bodyBytes: 100 })
  reader.add(piece(60))
  expect(reader.next()).toBe('piece')
  freeWhenWritten(reader.piece)?.()
  expect([reader.next(), reader.stop().length]).toEqual(['more', 0])
})
