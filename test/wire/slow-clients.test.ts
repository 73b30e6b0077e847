/** Clients that leave, or take or send little: short answers cost no backend connection, and who stays below the minimum rate is cut off. */
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { answer } from '../support/raw-backend.ts'
import { expectRefusal, keys, request, until, openWire } from './wire.ts'

/** More than the kernel holds. */
const MANY = 32 * 1024 * 1024

describe('an answer that cannot be delivered yet', () => {
  it.each([
    ['leaves its backend connection to others when it is short', 250_000, true],
    ['holds its backend back when it is long', MANY, false],
  ])('%s', async (_, bytes, free) => {
    const { connect, ask, backend } = await openWire({
      upstream: 'connections: 1',
      respond: ({ target }) => answer(200, Buffer.alloc(target.endsWith('first') ? bytes : 2, 'x')),
    })
    const client = await connect()
    client.socket.pause()
    client.send(request('GET', '/v1/pets/first'))
    await backend.waitFor(() => backend.requests.length === 1, 'the request')
    const other = ask(request('GET', '/v1/pets/2', { key: keys.business }))
    const isServed = await Promise.race([other.then(() => true), sleep(free ? 10_000 : 500)])
    expect(isServed ?? false).toBe(free)
    client.socket.resume()
    expect((await other).status).toBe(200)
    const { responses } = await client.waitForResponses(1)
    expect(responses[0]?.body.length).toBe(bytes)
  })
})

/** So high that the grace of 5 s decides. */
const server = 'limits: { minimumRate: 1MiB, bodyBytes: 64MiB }'

describe.concurrent('with a minimum rate, a client', () => {
  it.for([
    { what: 'that sends too slowly is refused with 408, for free', first: '', charge: 0 },
    {
      what: 'that goes on too slowly behind what a backend has seen is charged',
      first: 'x'.repeat(100_000),
      charge: 1,
    },
  ])('$what', async ({ first, charge }, { onTestFinished }) => {
    const { connect, backend, charged, served, accessLines } = await openWire({
      server,
      requestsMayBreakOff: true,
      onTestFinished,
    })
    const client = await connect(
      request('POST', '/v1/pets', { fields: ['Content-Length: 1000000'], body: first }),
    )
    const trickle = setInterval(() => client.send('x'), 300)
    const { responses, closed } = await client.waitFor((seen) => seen.closed)
    clearInterval(trickle)
    expectRefusal(responses[0], 408, { code: 'request_timeout', closes: true })
    expect(closed).toBe(true)
    expect(await accessLines(1)).toMatchObject([
      { status: 408, cause: 'sends below the minimum rate' },
    ])
    expect(backend.connections).toHaveLength(charge)
    await until(() => backend.openConnections() === 0, 'the end of the request')
    expect([served(), await charged()]).toEqual([[], charge])
  })

  it('that does not read is cut off, and the backend is free', async ({ onTestFinished }) => {
    const { connect, backend, charged, accessLines } = await openWire({
      server,
      respond: () => answer(200, Buffer.alloc(MANY)),
      onTestFinished,
    })
    const client = await connect()
    client.socket.pause()
    client.send(request('GET', '/v1/pets'))
    await until(() => backend.connections.length === 1, 'the request')
    await until(() => backend.openConnections() === 0, 'its end', 30_000)
    expect(await accessLines(1)).toMatchObject([
      { status: 200, cause: 'reads below the minimum rate' },
    ])
    client.socket.resume()
    const { responses } = await client.waitFor(({ closed }) => closed)
    expect([responses[0]?.complete, await charged()]).toEqual([false, 1])
  })

  it('is not blamed for a backend that takes its time', async ({ onTestFinished }) => {
    const { connect, backend } = await openWire({
      server,
      respond: () => ['HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nha', 7_000, 'lf'],
      onHead: (_, { socket }) => {
        socket.pause()
        setTimeout(() => socket.resume(), 7_000)
      },
      onTestFinished,
    })
    const client = await connect(
      request('POST', '/v1/pets', { fields: [`Content-Length: ${MANY}`] }),
    )
    client.send(Buffer.alloc(MANY))
    const { responses } = await client.waitForResponses(1)
    expect(responses[0]?.body.toString()).toBe('half')
    expect(backend.requests[0]?.body.length).toBe(MANY)
  }, 60_000)
})

it.concurrent(
  'a client that moves little, but enough, is served for as long as it takes',
  async ({ onTestFinished }) => {
    const { connect } = await openWire({
      server: 'limits: { minimumRate: 100B }',
      respond: () => answer(200, Buffer.alloc(MANY)),
      onTestFinished,
    })
    const client = await connect()
    client.socket.pause()
    client.send(request('POST', '/v1/pets', { fields: ['Content-Length: 1400'] }))
    for (let second = 0; second < 7; second++) {
      await sleep(1_000)
      client.send('x'.repeat(200))
    }
    let received = 0
    client.socket.removeAllListeners('data')
    client.socket.on('data', (piece: Buffer) => (received += piece.length))
    for (let second = 0; second < 7; second++) {
      client.socket.resume()
      await sleep(20)
      client.socket.pause()
      await sleep(1_000)
    }
    client.socket.resume()
    await until(() => received > MANY, 'the whole answer', 30_000)
  },
  90_000,
)

const get = (id: string): string => request('GET', `/v1/pets/${id}`)
const half = 'HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf'
describe('a client that leaves', () => {
  it.each([
    ['before its answer', 'reset', get('1'), 1, undefined],
    ['before its answer', 'end', get('1'), 1, undefined],
    ['before its answer', 'destroy', get('1'), 1, undefined],
    ['in front of several requests', 'reset', get('1') + get('2') + get('3'), 1, undefined],
    ['in the middle of its answer', 'reset', get('1'), 1, half],
  ] as const)('%s ends it at the backend, and is recorded once (%s)', async (...row) => {
    const wire = await openWire({ respond: () => row[4] })
    const { connect, backend, charged, accessLines, settled, gateway } = wire
    const [, leave, bytes, count, sent] = row
    const client = await connect(bytes)
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
  })
})
