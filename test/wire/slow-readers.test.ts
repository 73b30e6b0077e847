/** Clients that do not read their answers: short answers cost no backend connection, and who reads too slowly is cut off. */
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { answer } from '../support/raw-backend.ts'
import { engines, keys, request, withWire } from './wire.ts'

describe.each(engines)('an answer through %s that cannot be delivered yet', (engine) => {
  it.each([
    {
      what: 'leaves its backend connection to others when it is short',
      bytes: 250_000,
      free: true,
    },
    { what: 'holds its backend back when it is long', bytes: 2_000_000, free: false },
  ])('$what', ({ bytes, free }) => {
    let release: () => void = () => {}
    const held = new Promise<void>((resolve) => (release = resolve))
    return withWire(
      {
        engine,
        upstream: 'connections: 2',
        respond: async ({ target }) => {
          if (target.endsWith('first')) await held
          return answer(200, Buffer.alloc(target.endsWith('second') ? bytes : 2, 'x'))
        },
      },
      async ({ connect, exchange, backend }) => {
        // The second answer waits behind the first.
        const client = await connect()
        client.send(request('GET', '/v1/pets/first') + request('GET', '/v1/pets/second'))
        await backend.waitFor(() => backend.requests.length === 2, 'the requests')
        const other = exchange(request('GET', '/v1/pets/2', { key: keys.business }), {
          responses: 1,
        })
        const isServed = await Promise.race([other.then(() => true), sleep(free ? 10_000 : 500)])
        expect(isServed ?? false).toBe(free)
        release()
        expect((await other).responses[0]?.status).toBe(200)
        const { responses } = await client.waitForResponses(2)
        expect(responses.map(({ body }) => body.length)).toEqual([2, bytes])
      },
    )
  })
})
