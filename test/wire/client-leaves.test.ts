/** Clients that leave, or stop reading: the backend is told, everything is recorded once, and nobody else is held up. */
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { answer } from '../support/raw-backend.ts'
import { engines, keys, request, withWire } from './wire.ts'

/** More than is received before a backend is chosen. */
const HALF = '{'.repeat(100_000)
const get = (id: string): string => request('GET', `/v1/pets/${id}`)

for (const engine of engines) {
  describe(`a client that leaves, with ${engine}`, () => {
    for (const [how, leave] of Object.entries({
      reset: 'reset',
      end: 'end',
      destroy: 'destroy',
    } as const))
      it(`before its answer ends the backend's request (${how})`, () =>
        withWire(
          { engine, respond: () => undefined },
          async ({ connect, backend, charged, accessLines, settled, gateway }) => {
            const client = await connect()
            client.send(get('1'))
            await backend.waitFor(() => backend.requests.length === 1, 'the request')
            client[leave]()
            await backend.waitFor(() => backend.openConnections() === 0, 'its end')
            await settled()
            const lines = await accessLines(1)
            expect(lines).toHaveLength(1)
            expect(lines[0]?.status).toBe(499)
            expect(await charged()).toBe(1)
            expect(await gateway.metric('tollgate_backend_failures_total{kind="broken"}')).toBe(0)
          },
        ))

    it('in the middle of its body breaks the backend request off', () =>
      withWire(
        { engine, requestsMayBreakOff: true },
        async ({ connect, backend, accessLines, settled, served }) => {
          const client = await connect()
          client.send(
            request('POST', '/v1/pets', { fields: ['Content-Length: 200000'], body: HALF }),
          )
          await backend.waitFor(() => backend.connections.length === 1, 'the request')
          client.reset()
          await backend.waitFor(() => backend.openConnections() === 0, 'its end')
          await settled()
          expect(served()).toEqual([])
          expect(await accessLines(1)).toMatchObject([{ status: 499 }])
        },
      ))

    it('in the middle of its chunked body never looks complete to the backend', () =>
      withWire(
        { engine, requestsMayBreakOff: true },
        async ({ connect, backend, served, settled }) => {
          const client = await connect()
          const fields = ['Transfer-Encoding: chunked']
          client.send(request('POST', '/v1/pets', { fields, body: `186a0\r\n${HALF}\r\n` }))
          await backend.waitFor(
            () => backend.connections[0]?.raw().includes('{{') ?? false,
            'the beginning',
          )
          client.end()
          await backend.waitFor(() => backend.openConnections() === 0, 'its end')
          await settled()
          expect(served()).toEqual([])
        },
      ))

    it('in the middle of its answer ends the backend request', () =>
      withWire(
        { engine, respond: () => 'HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf' },
        async ({ connect, backend, accessLines, settled }) => {
          const client = await connect()
          client.send(get('1'))
          await client.waitFor(({ raw }) => raw.includes('half'))
          client.reset()
          await backend.waitFor(() => backend.openConnections() === 0, 'its end')
          await settled()
          const lines = await accessLines(1)
          expect(lines).toHaveLength(1)
          expect(lines[0]).toMatchObject({ status: 200 })
          expect(lines[0]?.cause).toBeTypeOf('string')
        },
      ))

    it('behind several requests ends them all, each recorded once', () =>
      withWire(
        { engine, respond: () => undefined },
        async ({ connect, backend, accessLines, settled, charged }) => {
          const client = await connect()
          client.send(get('1') + get('2') + get('3'))
          await backend.waitFor(() => backend.requests.length === 3, 'the requests')
          client.reset()
          await backend.waitFor(() => backend.openConnections() === 0, 'their end')
          await settled()
          expect(await accessLines(3)).toHaveLength(3)
          expect(await charged()).toBe(3)
        },
      ))
  })

  describe(`a client that does not read, with ${engine}`, () => {
    const SIZE = 64 * 1024 * 1024

    it('holds the backend back instead of filling the memory, and holds nobody else up', () =>
      withWire(
        {
          engine,
          respond: ({ target }, { socket }) => {
            if (!target.endsWith('big')) return answer(200, target)
            socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${SIZE}\r\n\r\n`)
            const piece = Buffer.alloc(256 * 1024, 'x')
            let left = SIZE / piece.length
            const more = (): void => {
              while (left > 0) {
                left--
                if (!socket.write(piece)) return void socket.once('drain', more)
              }
            }
            more()
            return undefined
          },
        },
        async ({ connect, exchange, backend, accessLines }) => {
          const client = await connect()
          client.socket.pause()
          client.send(get('big'))
          await backend.waitFor(() => backend.requests.length === 1, 'the request')
          let before = -1
          // The backend can write no more once the buffers on the way are full.
          for (;;) {
            const written = backend.connections[0]?.socket.bytesWritten ?? 0
            const queued = backend.connections[0]?.socket.writableLength ?? 0
            if (written - queued === before && before > 0) break
            before = written - queued
            await sleep(200)
          }
          expect(before).toBeLessThan(SIZE / 2)
          const other = await exchange(request('GET', '/v1/pets/2', { key: keys.business }), {
            responses: 1,
          })
          expect(other.responses[0]?.body.toString()).toBe('/v1/pets/2')
          let received = 0
          client.socket.removeAllListeners('data')
          client.socket.on('data', (piece: Buffer) => (received += piece.length))
          client.socket.resume()
          await backend.waitFor(() => received > SIZE, 'the rest')
          expect(await accessLines(2)).toHaveLength(2)
        },
      ))

    it('holds a client back whose backend does not read its body', () =>
      withWire(
        {
          engine,
          requestsMayBreakOff: true,
          onConnection: ({ socket }) => void socket.pause(),
          blocks: {
            server:
              'server: { listen: "127.0.0.1:0", timeouts: { drain: 1s }, limits: { bodyBytes: 64MiB } }',
          },
        },
        async ({ connect, backend }) => {
          const client = await connect()
          const fields = [`Content-Length: ${SIZE}`]
          client.send(request('POST', '/v1/pets', { fields }))
          client.send(Buffer.alloc(SIZE, 'x'))
          let before = -1
          for (;;) {
            const passed = client.socket.bytesWritten - client.socket.writableLength
            if (passed === before && backend.connections.length === 1) break
            before = passed
            await sleep(200)
          }
          // One write is one unit to the client's queue: what the kernel took is told by the backend.
          backend.connections[0]?.socket.resume()
          await client.waitForResponses(1)
          expect(backend.requests[0]?.body.length).toBe(SIZE)
        },
      ))
  })
}
