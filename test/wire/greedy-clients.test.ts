/** One key that holds on to all it can get: every request of everybody else is served meanwhile. */
import { describe, expect, it } from 'vitest'
import { answer } from '../support/raw-backend.ts'
import { engines, keys, request, until, withWire } from './wire.ts'

const CLIENTS = 128
const LARGE = Buffer.alloc(6 * 1024 * 1024)

describe.each(engines)(`one key with ${CLIENTS} connections, through %s`, (engine) => {
  it.each([
    {
      what: 'of slow uploads reaches no backend',
      bytes: request('POST', '/v1/pets', { fields: ['Content-Length: 1000'], body: '{' }),
      atBackend: 0,
    },
    {
      what: 'of large answers that are not read takes a quarter of the backend connections',
      bytes: request('GET', '/v1/pets/large'),
      atBackend: 32,
    },
  ])('$what, and others are served', ({ bytes, atBackend }) => {
    const seen = new Set<number>()
    return withWire(
      {
        engine,
        requestsMayBreakOff: true,
        onHead: ({ header, connection }) => {
          if (header('x-client-id') === 'pro-client') seen.add(connection)
        },
        respond: ({ target }) => answer(200, target.endsWith('large') ? LARGE : 'ok'),
      },
      async ({ connect, exchange, backend }) => {
        const greedy = await Promise.all(Array.from({ length: CLIENTS }, connect))
        for (const client of greedy) {
          client.socket.pause()
          client.send(bytes)
        }
        await until(() => seen.size >= atBackend, 'what it gets')
        for (let sent = 0; sent < 100; sent++) {
          const bystander = request('GET', '/v1/pets', { key: keys.business })
          const { responses } = await exchange(bystander, { responses: 1 })
          expect(responses[0]?.status).toBe(200)
        }
        // A few more where the kernel took all of an answer, and the next one had its turn.
        if (atBackend === 0) expect(seen.size).toBe(0)
        else expect(backend.openConnections()).toBeLessThan(CLIENTS / 2)
        for (const client of greedy) client.reset()
      },
    )
  })
})
