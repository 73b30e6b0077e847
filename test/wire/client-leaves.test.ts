/** Clients that leave, or stop reading: the backend is told, everything is recorded once, and nobody else is held up. How engines end requests is in test/contract. */
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { answer } from '../support/raw-backend.ts'
import { keys, request, serverBlock, withWire } from './wire.ts'

/** More than is received before a backend is chosen. */
const HALF = '{'.repeat(100_000)
const get = (id: string): string => request('GET', `/v1/pets/${id}`)

const half = 'HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf'
const length = request('POST', '/v1/pets', { fields: ['Content-Length: 200000'], body: HALF })
const chunked = request('POST', '/v1/pets', {
  fields: ['Transfer-Encoding: chunked'],
  body: `186a0\r\n${HALF}\r\n`,
})

describe('a client that leaves', () => {
  it.each([
    ['before its answer', 'reset', get('1'), 1, undefined],
    ['before its answer', 'end', get('1'), 1, undefined],
    ['before its answer', 'destroy', get('1'), 1, undefined],
    ['behind several requests', 'reset', get('1') + get('2') + get('3'), 3, undefined],
    ['in the middle of its answer', 'reset', get('1'), 1, half],
  ] as const)('%s ends it at the backend, and is recorded once (%s)', (...row) =>
    withWire({ respond: () => row[4] }, async (wire) => {
      const { connect, backend, charged, accessLines, settled, gateway } = wire
      const [, leave, bytes, count, sent] = row
      const client = await connect()
      client.send(bytes)
      await backend.waitFor(() => backend.requests.length === count, 'the requests')
      if (sent !== undefined) await client.waitFor(({ raw }) => raw.includes('half'))
      client[leave]()
      await backend.waitFor(() => backend.openConnections() === 0, 'their end')
      await settled()
      const lines = await accessLines(count)
      const statuses = Array(count).fill(sent === undefined ? 499 : 200)
      expect(lines.map(({ status }) => status)).toEqual(statuses)
      if (sent !== undefined) expect(lines[0]?.cause).toBeTypeOf('string')
      expect(await charged()).toBe(count)
      expect(await gateway.metric('tollgate_backend_failures_total{kind="broken"}')).toBe(0)
    }),
  )

  it.each([
    ['reset', length],
    ['end', chunked],
  ] as const)('in the middle of its body breaks the backend request off (%s)', (leave, bytes) =>
    withWire({ requestsMayBreakOff: true }, async (wire) => {
      const { connect, backend, accessLines, settled, served } = wire
      const client = await connect()
      client.send(bytes)
      const begun = () => backend.connections[0]?.raw().includes('{{') ?? false
      await backend.waitFor(begun, 'the beginning')
      client[leave]()
      await backend.waitFor(() => backend.openConnections() === 0, 'its end')
      await settled()
      expect(served()).toEqual([])
      if (leave === 'reset') expect(await accessLines(1)).toMatchObject([{ status: 499 }])
    }),
  )
})

describe('a client that does not read', () => {
  const SIZE = 32 * 1024 * 1024
  /** Once it has not grown for a while. */
  async function settledAt(bytes: () => number, isOn = () => true): Promise<number> {
    for (let before = -1; ;) {
      if (bytes() === before && before > 0 && isOn()) return before
      before = bytes()
      await sleep(200)
    }
  }

  it('holds the backend back instead of filling the memory, and holds nobody else up', () =>
    withWire(
      {
        respond: ({ target }, { socket }) => {
          if (!target.endsWith('big')) return answer(200, target)
          socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${SIZE}\r\n\r\n`)
          for (let left = SIZE; left > 0; left -= 2 ** 18) socket.write(Buffer.alloc(2 ** 18, 'x'))
          return undefined
        },
      },
      async ({ connect, ask, backend, accessLines }) => {
        const client = await connect()
        client.socket.pause()
        client.send(get('big'))
        await backend.waitFor(() => backend.requests.length === 1, 'the request')
        // The backend can write no more once the buffers on the way are full.
        const [connection] = backend.connections
        const passed = await settledAt(
          () => (connection?.socket.bytesWritten ?? 0) - (connection?.socket.writableLength ?? 0),
        )
        expect(passed).toBeLessThan(SIZE / 2)
        const other = await ask(request('GET', '/v1/pets/2', { key: keys.business }))
        expect(other.body.toString()).toBe('/v1/pets/2')
        let received = 0
        client.socket.removeAllListeners('data')
        client.socket.on('data', (piece: Buffer) => (received += piece.length))
        client.socket.resume()
        await backend.waitFor(() => received > SIZE, 'the rest')
        expect(await accessLines(2)).toHaveLength(2)
      },
    ))

  it('is itself held back whose backend does not read its body', () =>
    withWire(
      {
        requestsMayBreakOff: true,
        onConnection: ({ socket }) => void socket.pause(),
        blocks: { server: serverBlock('limits: { bodyBytes: 64MiB }') },
      },
      async ({ connect, backend }) => {
        const client = await connect()
        const fields = [`Content-Length: ${SIZE}`]
        client.send(request('POST', '/v1/pets', { fields }))
        client.send(Buffer.alloc(SIZE, 'x'))
        // One write is one unit to the client's queue: what the kernel took is told by the backend.
        await settledAt(
          () => client.socket.bytesWritten - client.socket.writableLength,
          () => backend.connections.length === 1,
        )
        backend.connections[0]?.socket.resume()
        await client.waitForResponses(1)
        expect(backend.requests[0]?.body.length).toBe(SIZE)
      },
    ))
})
