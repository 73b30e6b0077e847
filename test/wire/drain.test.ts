/** Stopping loses nothing that is in flight within the drain time, and cuts the rest off after it. */
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { answer } from '../support/raw-backend.ts'
import { openRawClient } from '../support/raw-client.ts'
import { engines, request, serverBlock, until, withWire } from './wire.ts'

const get = (id: string): string => request('GET', `/v1/pets/${id}`)
const blocks = { server: serverBlock('timeouts: { drain: 10s }') }

for (const engine of engines) {
  describe(`a gateway that is stopped, with ${engine}`, () => {
    it('finishes what is in flight, pipelined requests included, and says that it closes', () =>
      withWire(
        { engine, blocks, respond: async ({ target }) => (await sleep(400), answer(200, target)) },
        async ({ connect, backend, gateway, accessLines }) => {
          const client = await connect()
          const other = await connect()
          const idle = await connect()
          client.send(get('1') + get('2'))
          other.send(request('POST', '/v1/pets', { fields: ['Content-Length: 2'], body: '{' }))
          await backend.waitFor(() => backend.connections.length === 2, 'the requests')
          await expect.poll(() => gateway.metric('tollgate_requests_in_flight')).toBe(3)
          const stopped = gateway.stop()
          await sleep(50)
          other.send('}')
          const [first, second] = await Promise.all([
            client.waitFor(({ closed }) => closed),
            other.waitFor(({ closed }) => closed),
            idle.waitFor(({ closed }) => closed),
          ])
          expect(first.responses.map(({ body }) => body.toString())).toEqual([
            '/v1/pets/1',
            '/v1/pets/2',
          ])
          expect(first.responses[1]?.header('connection')).toBe('close')
          expect(second.responses[0]?.status).toBe(200)
          expect(second.responses[0]?.header('connection')).toBe('close')
          await stopped
          expect(await accessLines(3)).toHaveLength(3)
        },
        { stopsItself: true },
      ))

    it('takes no new connection and no further request', () =>
      withWire(
        { engine, blocks, respond: async ({ target }) => (await sleep(300), answer(200, target)) },
        async ({ connect, backend, gateway, served }) => {
          const client = await connect()
          client.send(get('1'))
          await backend.waitFor(() => backend.requests.length === 1, 'the request')
          const stopped = gateway.stop()
          client.send(get('late'))
          await expect(openRawClient(gateway.port)).rejects.toThrow('ECONNREFUSED')
          const { responses } = await client.waitFor(({ closed }) => closed)
          expect(responses).toHaveLength(1)
          await stopped
          expect(served()).toEqual(['GET /v1/pets/1'])
        },
        { stopsItself: true },
      ))

    it('cuts off what takes longer than the drain time', () =>
      withWire(
        {
          engine,
          blocks: { server: serverBlock('timeouts: { drain: 300ms }') },
          respond: ({ target }) =>
            target.endsWith('half')
              ? 'HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf'
              : undefined,
        },
        async ({ connect, backend, gateway, accessLines }) => {
          const silent = await connect()
          const half = await connect()
          silent.send(get('silent'))
          half.send(get('half'))
          await half.waitFor(({ raw }) => raw.includes('\r\n\r\nhalf'))
          await backend.waitFor(() => backend.requests.length === 2, 'the requests')
          await gateway.stop()
          const refused = await silent.waitFor(({ closed }) => closed)
          expect(refused.responses[0]?.status).toBe(503)
          const cut = await half.waitFor(({ closed }) => closed)
          expect(cut.responses[0]?.complete).toBe(false)
          await backend.waitFor(() => backend.openConnections() === 0, 'the end')
          expect(new Set((await accessLines(2)).map(({ status }) => status))).toEqual(
            new Set([200, 503]),
          )
          const drained = gateway.logLines().find(({ event }) => event === 'drained')
          expect(drained).toMatchObject({ cutOff: 2 })
        },
        { stopsItself: true },
      ))
  })
}

describe('a gateway that is stopped', () => {
  it('ends its WebSockets after the drain time', () =>
    withWire(
      {
        // The close frame that it gets is no request.
        requestsMayBreakOff: true,
        blocks: { server: serverBlock('timeouts: { drain: 300ms }') },
        respond: () =>
          'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n',
      },
      async ({ connect, backend, gateway }) => {
        const client = await connect()
        client.send(
          request('GET', '/v1/live', {
            fields: [
              'Connection: Upgrade',
              'Upgrade: websocket',
              'Sec-WebSocket-Version: 13',
              'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
            ],
          }),
        )
        await client.waitFor(({ responses }) => responses[0]?.status === 101)
        const ended = once(client.socket, 'end')
        await gateway.stop()
        await ended
        await until(() => backend.openConnections() === 0, 'the end')
      },
      { stopsItself: true },
    ))
})
