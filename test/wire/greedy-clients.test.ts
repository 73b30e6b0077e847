/** One key that holds on to all it can get: every request of everybody else is served meanwhile. */
import { describe, expect, it } from 'vitest'
import { answer } from '../support/raw-backend.ts'
import { sha256 } from '../support/gateway.ts'
import { handshake, keys, request, switched, until, openWire } from './wire.ts'

const CLIENTS = 128
const LARGE = Buffer.alloc(6 * 1024 * 1024)

describe(`one key with ${CLIENTS} connections`, () => {
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
  ])('$what, and others are served', async ({ bytes, atBackend }) => {
    const seen = new Set<number>()
    const { connect, ask, backend } = await openWire({
      requestsMayBreakOff: true,
      onHead: ({ header, connection }) => {
        if (header('x-client-id') === 'pro-client') seen.add(connection)
      },
      respond: ({ target }) => answer(200, target.endsWith('large') ? LARGE : 'ok'),
    })
    const greedy = await Promise.all(Array.from({ length: CLIENTS }, connect))
    for (const client of greedy) {
      client.socket.pause()
      client.send(bytes)
    }
    await until(() => seen.size >= atBackend, 'what it gets')
    for (let sent = 0; sent < 20; sent++)
      expect((await ask(request('GET', '/v1/pets', { key: keys.business }))).status).toBe(200)
    // A few more where the kernel took all of an answer, and the next one had its turn.
    if (atBackend === 0) expect(seen.size).toBe(0)
    else expect(backend.openConnections()).toBeLessThan(CLIENTS / 2)
    for (const client of greedy) client.reset()
  })
})

const GREEDY = ['one', 'two', 'three', 'four']
const clientBlock = (id: string): string =>
  `  - { id: ${id}, plan: enterprise, limits: { perMinute: 10000, perDay: 100000 }, keys: [{ id: ${id}-1, sha256: ${sha256(id)} }] }`
const blocks = {
  plans: 'plans: { enterprise: { custom: true } }',
  clients: `clients:\n${[...GREEDY, 'fifth'].map(clientBlock).join('\n')}`,
}

/** Four clients ask for a quarter of the connections each, and their answers never come. */
describe('four clients that hold all they can get', () => {
  it.each([
    ['slow answers', '/v1/pets/slow', []],
    ['WebSockets', '/v1/live', handshake],
  ])('of %s leave connections for a fifth', async (_, target, fields) => {
    let held = 0
    const { connect, ask } = await openWire({
      blocks,
      // They wait for their turn as long as the fifth needs, however busy the machine.
      upstream: 'connections: 32, timeouts: { response: 120s }',
      onHead: ({ header }) => void (held += header('x-client-id') === 'fifth' ? 0 : 1),
      respond: ({ target: asked }) =>
        asked.endsWith('slow') ? undefined : asked.endsWith('live') ? switched : answer(200, 'ok'),
    })
    for (const key of GREEDY) {
      const greedy = await Promise.all(Array.from({ length: 8 }, connect))
      for (const client of greedy) client.send(request('GET', target, { key, fields }))
    }
    await until(() => held >= 28, 'what they get')
    // It has eight at once; the others wait for their turn, on a busy machine longer than they may.
    const asked = async () => {
      for (;;) {
        const got = await ask(request('GET', '/v1/pets', { key: 'fifth' }))
        if (got.status !== 429) return got
      }
    }
    const answers = await Promise.all(Array.from({ length: 20 }, asked))
    expect(answers.map(({ status }) => status)).toEqual(Array(20).fill(200))
    const fifth = await ask(request('GET', '/v1/live', { key: 'fifth', fields: handshake }))
    expect([fifth.status, held]).toEqual([101, 28])
  })
})
