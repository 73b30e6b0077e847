/** What one connection may have going at once, however much a client sends on it without waiting. */
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { minuteWithAtLeast } from '../support/gateway.ts'
import { answer } from '../support/raw-backend.ts'
import { handshake, keys, request, SMALL_LIMITS, switched, until, openWire } from './wire.ts'

const key = keys.enterprise
const get = (id: string | number): string => request('GET', `/v1/pets/${id}`, { key })
const TURN = 8

const bodyBytesOf = (at: number): number =>
  at % 3 === 0 ? 0 : at % 10 === 1 ? 20_000 : Math.max(`${at}`.length, (at % 7) + 1)

/** Of every framing, with bodies of up to 20 kB. */
function nth(at: number): string {
  const body = `${at}`.padEnd(bodyBytesOf(at), '.')
  if (at % 3 === 0) return get(at)
  const chunked = at % 3 === 1
  const fields = [chunked ? 'Transfer-Encoding: chunked' : `Content-Length: ${body.length}`]
  const framed = chunked ? `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n` : body
  return request('PUT', `/v1/pets/${at}`, { key, fields, body: framed })
}

describe('a connection on which much is sent at once', () => {
  it.each([
    ['one packet', Infinity],
    ['small pieces', 997],
  ])('has all of it answered in order: %s', async (_, pieceBytes) => {
    const { connect, backend } = await openWire({
      respond: ({ target, body }) => answer(200, `${target} ${body.length}`),
      upstream: 'connections: 8',
    })
    const client = await connect()
    const sent = Array.from({ length: 150 }, (__, at) => nth(at))
    const bytes = sent.join('')
    for (let at = 0; at < bytes.length; at += pieceBytes) {
      client.send(bytes.slice(at, at + pieceBytes))
      if (at % (16 * pieceBytes) === 0) await sleep(1)
    }
    const { responses, problem } = await client.waitForResponses(150)
    expect(problem).toBeUndefined()
    expect(responses.map(({ body }) => body.toString())).toEqual(
      sent.map((__, at) => `/v1/pets/${at} ${bodyBytesOf(at)}`),
    )
    expect(backend.requests).toHaveLength(150)
  })

  it('has one request under way, and the others wait unread', async () => {
    const waiting: (() => void)[] = []
    const held = () =>
      new Promise<Buffer>((resolve) => waiting.push(() => resolve(answer(200, 'ok'))))
    const { connect, gateway } = await openWire({ respond: held })
    const client = await connect(Array.from({ length: 3 }, (_, at) => get(at)).join(''))
    for (let served = 1; served <= 3; served++) {
      await until(() => waiting.length === served, `request ${served} at the backend`)
      expect(await gateway.metric('tollgate_requests_in_flight')).toBe(1)
      waiting.at(-1)?.()
      await client.waitForResponses(served)
    }
  })

  it('leaves others their turn: one that comes later is not behind all that was sent before', async () => {
    const { connect, gateway } = await openWire({
      blocks: { anonymous: 'anonymous: { perMinute: 1000 }' },
    })
    const greedy = await Promise.all(Array.from({ length: 4 }, () => connect()))
    const other = await connect()
    for (const each of [...greedy, other]) {
      each.send(get('first'))
      await each.waitForResponses(1)
    }
    const unknown = request('GET', '/v1/pets', { key: 'unknown' })
    for (const each of greedy) each.send(unknown.repeat(90))
    other.send(request('GET', '/v1/nothing', { key }))
    await Promise.all(greedy.map((each) => each.waitForResponses(91)))
    const lines = gateway.logLines().filter(({ event }) => event === 'access')
    // All are read in the same turn of the event loop, or the next.
    expect(lines.findIndex(({ status }) => status === 404)).toBeLessThan(3 * 4 * TURN)
  })

  const chunked = (chunks: string, fields: readonly string[] = []): string =>
    request('PUT', '/v1/pets/1', {
      key,
      fields: ['Transfer-Encoding: chunked', ...fields],
      body: chunks,
    })

  it('refuses a body of more framing than content, which would cost thousands of times its bytes', async () => {
    const { exchange, backend, charged } = await openWire()
    const body = `${'1\r\nx\r\n'.repeat(5_000)}0\r\n\r\n`
    const { closed, statuses } = await exchange(chunked(body) + get('behind'))
    expect([statuses, closed]).toEqual([[400], true])
    expect(backend.requests).toEqual([])
    expect(await charged()).toBe(0)
  })

  it('refuses such a body in reads of its own too, and takes good ones afterwards', async () => {
    const { connect, backend } = await openWire({
      engine: 'http-proxy-3',
      requestsMayBreakOff: true,
      respond: () => answer(200, 'a body, read by one of the same parsers'),
    })
    const good = await connect()
    for (let sent = 0; sent < 3; sent++) {
      const client = await connect(chunked('', ['Expect: 100-continue']))
      await client.waitFor(({ raw }) => raw.includes('100 Continue'))
      client.send('1\r\nx\r\n'.repeat(5_000))
      const { responses } = await client.waitFor(({ closed }) => closed)
      expect(responses.at(-1)?.status).toBe(400)
    }
    expect(backend.requests).toEqual([])
    good.send(nth(1) + nth(4) + nth(2))
    const { responses } = await good.waitForResponses(3)
    for (const { body } of responses) expect(body.toString()).toMatch(/^a body/)
    expect(backend.requests.map(({ body }) => body.length)).toEqual([20_000, 5, 3])
  })

  const ofPro = (body: string): string =>
    request('PUT', '/v1/pets/1', { fields: ['Transfer-Encoding: chunked'], body })

  const large = (size: number, count: number) =>
    ofPro(`${`${size.toString(16)}\r\n${'x'.repeat(size)}\r\n`.repeat(count)}0\r\n\r\n`)
  it('takes a request with an Upgrade field behind a body in chunks', async () => {
    const { connect } = await openWire()
    const client = await connect()
    const fields = ['Connection: Upgrade', 'Upgrade: x', 'Content-Length: 2']
    client.send(nth(4) + request('PUT', '/v1/pets/1', { key, fields, body: '{}' }))
    const { statuses } = await client.waitForResponses(2)
    expect(statuses).toEqual([200, 200])
  })

  it.each([
    { what: 'of one chunk', body: large(5_000, 1) },
    { what: 'of many chunks', body: large(20, 300) },
  ])('has nothing served behind a body $what that is too large', async ({ body }) => {
    const { exchange, backend, charged, settled } = await openWire({
      engine: 'direct',
      server: SMALL_LIMITS,
    })
    const behind = request('GET', '/v1/pets/behind')
    // More than are begun in one turn, so that the rest is parsed in one go.
    const { statuses } = await exchange(get('x').repeat(TURN) + body + behind + behind)
    const expected = [...Array<number>(TURN).fill(200), 413]
    expect(statuses).toEqual(expected)
    await settled()
    expect([backend.requests.length, await charged()]).toEqual([TURN, 0])
  })

  it.each([
    ['an unknown method', 'NONSENSE /v1/pets HTTP/1.1\r\n\r\n', 501],
    ['no request line', 'not a request\r\n\r\n', 400],
    ['no Host', 'GET / HTTP/1.1\r\n\r\n', 400],
    [
      'a fault in a chunk',
      request('PUT', '/v1/pets/1', { key, fields: ['Transfer-Encoding: chunked'], body: 'ZZ\r\n' }),
      400,
    ],
  ])(
    'ends with the answer to what cannot be read, behind all others: %s',
    async (_, bad, status) => {
      const { exchange } = await openWire({ requestsMayBreakOff: true })
      const { closed, statuses } = await exchange(get('x').repeat(70) + bad + get('y'))
      expect([statuses, closed]).toEqual([[...Array<number>(70).fill(200), status], true])
    },
  )

  it('may become a tunnel at its end', async () => {
    const { connect, backend } = await openWire({
      requestsMayBreakOff: true,
      respond: ({ target }) => (target.endsWith('live') ? switched : answer(200, 'ok')),
    })
    const client = await connect()
    const upgrade = request('GET', '/v1/live', { key, fields: handshake })
    client.send(`${get('x').repeat(70)}${upgrade}hello`)
    const { responses } = await client.waitForResponses(71)
    expect(responses.at(-1)?.status).toBe(101)
    client.send(' there')
    await until(
      () => backend.connections.some((one) => one.raw().toString().endsWith('hello there')),
      'the bytes behind the handshake',
    )
  })

  it('is not told of a time-out while its requests wait for us', async () => {
    const { connect } = await openWire({
      respond: () => [900, answer(200, 'ok')],
      server: 'timeouts: { headers: 300ms, request: 600ms, idle: 300ms, drain: 1s }',
    })
    const client = await connect(nth(3).repeat(3) + nth(5))
    const { statuses } = await client.waitForResponses(4)
    expect(statuses).toEqual(Array(4).fill(200))
  })

  it('is answered as far as a client reads, and keeps no more', async () => {
    const { connect, backend } = await openWire({
      respond: () => answer(200, Buffer.alloc(40_000, 'x')),
    })
    const client = await connect()
    client.socket.pause()
    client.send(get('x').repeat(200))
    await sleep(500)
    expect(backend.requests.length).toBeLessThan(200)
    client.socket.resume()
    const { responses } = await client.waitForResponses(200)
    expect(responses.every(({ complete, status }) => complete && status === 200)).toBe(true)
  })

  it.each([
    ['a refusal that closes', request('GET', '/v1/%2e', { key })],
    [
      'a request that says it is the last',
      request('GET', '/v1/pets/1', { key, fields: ['Connection: close'] }),
    ],
    ['what cannot be read', 'not a request\r\n\r\n'],
  ])('is not read further behind %s', async (_, last) => {
    const { connect, gateway } = await openWire()
    const client = await connect(last + get('behind').repeat(1_000))
    const sending = setInterval(() => client.send(get('behind').repeat(1_000)), 5)
    const { responses } = await client.waitFor(({ closed }) => closed)
    clearInterval(sending)
    expect(responses).toHaveLength(1)
    const lines = gateway.logLines().filter(({ event }) => event === 'access')
    expect(lines.length).toBeLessThan(2)
  })
})

describe('a connection whose requests are refused', () => {
  const anonymous = (perMinute: number, more = '') => ({
    blocks: { anonymous: `anonymous: { perMinute: ${perMinute} }` },
    server: more,
  })
  const trusting = 'trustedProxies: ["127.0.0.1"]'
  const refused = request('GET', '/v1/pets', { key: null })
  const both = refused.repeat(60) + get('x') + refused.repeat(60)
  it.each([
    ['is closed behind the 100th in a row', anonymous(1_000), refused.repeat(150), 100, 401, true],
    ['starts again behind one that was served', anonymous(1_000), both, 121, 401, false],
    ['is closed behind the first 429', anonymous(3), refused.repeat(10), 4, 429, true],
    [
      'stays open for a trusted proxy',
      anonymous(3, trusting),
      refused.repeat(150),
      150,
      429,
      false,
    ],
  ])('%s', async (_, options, bytes, ...expected) => {
    const { connect } = await openWire(options)
    const [answers, status, closes] = expected
    const client = await connect()
    await minuteWithAtLeast()
    client.send(bytes)
    const { responses } = await client.waitForResponses(answers)
    const closing = responses.filter((each) => each.header('connection') === 'close')
    expect(closing).toEqual(closes ? [responses.at(-1)] : [])
    expect(responses.at(-1)?.status).toBe(status)
    if (!closes) return
    const { responses: all } = await client.waitFor(({ closed }) => closed)
    expect(all).toHaveLength(answers)
  })
})
