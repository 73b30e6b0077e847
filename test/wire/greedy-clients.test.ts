/** One key that holds on to all it can get: every request of everybody else is served meanwhile. */
import { describe, expect, it } from 'vitest'
import { answer } from '../support/raw-backend.ts'
import { sha256 } from '../support/gateway.ts'
import { engines, handshake, keys, request, switched, until, withWire } from './wire.ts'

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

const GREEDY = ['one', 'two', 'three', 'four']
const clientBlock = (id: string, key: string): string =>
  `  - { id: ${id}, plan: enterprise, limits: { perMinute: 10000, perDay: 100000 }, keys: [{ id: ${id}-1, sha256: ${sha256(key)} }] }`
const blocks = {
  plans: 'plans: { enterprise: { custom: true } }',
  clients: `clients:\n${[...GREEDY, 'fifth'].map((id) => clientBlock(id, id)).join('\n')}`,
}

/** Four clients ask for a quarter of the connections each, and their answers never come. */
describe.each(engines)('four clients that hold all they can get, through %s', (engine) => {
  it.each([
    { of: 'slow answers', bytes: (key: string) => request('GET', '/v1/pets/slow', { key }) },
    {
      of: 'WebSockets',
      bytes: (key: string) => request('GET', '/v1/live', { key, fields: handshake }),
    },
  ])('of $of leave connections for a fifth', ({ bytes }) => {
    let held = 0
    return withWire(
      {
        engine,
        blocks,
        upstream: 'connections: 32',
        onHead: ({ header }) => void (held += header('x-client-id') === 'fifth' ? 0 : 1),
        respond: ({ target }) =>
          target.endsWith('slow')
            ? undefined
            : target.endsWith('live')
              ? switched
              : answer(200, 'ok'),
      },
      async ({ connect, exchange }) => {
        for (const key of GREEDY) {
          const greedy = await Promise.all(Array.from({ length: 8 }, connect))
          for (const client of greedy) client.send(bytes(key))
        }
        await until(() => held >= 28, 'what they get')
        const answers = await Promise.all(
          Array.from({ length: 20 }, () =>
            exchange(request('GET', '/v1/pets', { key: 'fifth' }), { responses: 1 }),
          ),
        )
        expect(answers.map(({ responses }) => responses[0]?.status)).toEqual(Array(20).fill(200))
        const fifth = await connect()
        fifth.send(request('GET', '/v1/live', { key: 'fifth', fields: handshake }))
        await fifth.waitFor(({ responses }) => responses[0]?.status === 101)
        expect(held).toBe(28)
      },
    )
  })
})
