/** HTTP/2 behind the same pipeline: what a client sends and gets, what the backend sees, and what is charged. */
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { openH2Client } from '../support/h2-client.ts'
import { END_HEADERS, frame, headers, openH2Peer, types, uint32 } from '../support/h2-frames.ts'
import { answer, closeConnection, until } from '../support/raw-backend.ts'
import { engines, expectGatewayFields, keys, openWire, type WireOptions } from './wire.ts'

const clear = (more = '') => `http2: clear\n  trustedProxies: [127.0.0.1]\n  ${more}`

const to = [':method', 'POST', ':path', '/v1/pets', ':scheme', 'http', ':authority', 'a.b']
const POST = [...to, 'authorization', `Bearer ${keys.pro}`]

async function openH2({ server, ...options }: WireOptions = {}) {
  const wire = await openWire({ ...options, server: clear(server) })
  const client = await openH2Client(wire.gateway.port)
  onTestFinished(client.close)
  return { ...wire, client }
}

test.each(engines)('a request and its answer are those of HTTP/1.1, by %s', async (engine) => {
  const { client, ...wire } = await openH2({ engine })
  const got = await client.request({ fields: ['cookie', 'a=1', 'cookie', 'b=2'] })
  expect([got.status, got.body.toString(), got.complete]).toEqual([200, 'ok', true])
  expectGatewayFields(got)
  expect(got.all('via')).toEqual(['1.1 tollgate'])
  const [seen] = wire.backend.requests
  expect(seen?.all('host')).toEqual(['api.example'])
  expect(seen?.all('cookie')).toEqual(['a=1; b=2'])
  expect(seen?.all('via')).toEqual(['2 tollgate'])
  expect(seen?.all('x-forwarded-proto')).toEqual(['http'])
  expect(seen?.all('authorization')).toEqual([])
  expect(seen?.framing).toBe('none')
  expect(await wire.charged()).toBe(1)
  const [line] = await wire.accessLines(1)
  expect(line).toMatchObject({ method: 'GET', path: '/v1/pets', status: 200, responseBytes: 2 })
  // HTTP/1.1 that begins with the letter of HTTP/2.
  const other = await wire.connect('P')
  await sleep(50)
  other.send('UT /v1/pets HTTP/1.1\r\nHost: a.b\r\n\r\n')
  expect((await other.waitForResponses(1)).responses[0]?.status).toBe(401)
})

test.each([
  ['a length', ['content-length', '3'], 'abc', ['length', 'length']],
  ['no length', [], 'abc', ['chunked', 'chunked']],
  ['a length of 0', ['content-length', '0'], undefined, ['length', 'length']],
  ['no body', [], undefined, ['length', 'none']],
] as const)('a body with %s goes on as such', async (_, fields, body, framings) => {
  const { client, ...wire } = await openH2()
  for (const method of ['POST', 'DELETE', 'OPTIONS']) {
    const path = method === 'POST' ? '/v1/pets' : '/v1/pets/1'
    const options = { method, path, fields, ...(body === undefined ? {} : { body }) }
    const { status } = await client.request(options)
    expect(status).toBe(method === 'OPTIONS' ? 405 : 200)
  }
  const seen = wire.backend.requests.filter(({ method }) => method !== 'GET')
  expect(seen.map((one) => one.framing)).toEqual(framings)
  expect(seen.map((one) => one.body.toString())).toEqual([body ?? '', body ?? ''])
  const [line] = await wire.accessLines(3)
  expect(line).toMatchObject({ requestBytes: body?.length ?? 0 })
})

test('trailers of a client are dropped, as is the body of an answer that has none', async () => {
  const odd = ['ETag: "a"', 'ETag: "b"', 'HTTP2-Settings: x', 'Set-Cookie: a', 'Set-Cookie: b']
  const answers: Record<string, Buffer | string> = {
    '/v1/pets/1': 'HTTP/1.1 204 No Content\r\n\r\n',
    '/v1/pets/2': 'HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n',
    '/v1/pets/3': answer(205, 'extra'),
    '/v1/pets/4': answer(200, 'x', ...odd),
  }
  const { client, ...wire } = await openH2({
    respond: ({ target }) => answers[target] ?? answer(200, 'ok'),
  })
  const stream = client.session.request(POST, { waitForTrailers: true })
  stream.on('wantTrailers', () => stream.sendTrailers({ 'x-trailer': 'yes' }))
  stream.end('body')
  expect((await client.answer(stream)).status).toBe(200)
  expect(wire.backend.requests[0]?.body.toString()).toBe('body')
  expect(wire.backend.connections[0]?.raw().toString()).not.toContain('x-trailer')
  const [head, ...others] = await Promise.all([
    client.request({ method: 'HEAD' }),
    ...Object.keys(answers).map((path) => client.request({ path })),
  ])
  expect(head).toMatchObject({ status: 200, complete: true, body: { length: 0 } })
  expect(head?.header('content-length')).toBe('2')
  expect(others.map(({ status, complete, body }) => [status, complete, body.length])).toEqual([
    [204, true, 0],
    [304, true, 0],
    [205, true, 0],
    [200, true, 1],
  ])
  const last = others.at(-1)
  expect([last?.all('etag'), last?.all('set-cookie')]).toEqual([
    ['"a"', '"b"'],
    ['a', 'b'],
  ])
})

test('who expects 100 gets it before the body is asked for, and not where it is refused', async () => {
  const { client, ...wire } = await openH2()
  const fields = ['expect', '100-continue']
  const taken = client.start({ method: 'POST', fields, open: true })
  taken.once('continue', () => taken.end('later'))
  expect(await client.answer(taken)).toMatchObject({ status: 200, interim: [100] })
  expect(wire.backend.requests[0]?.body.toString()).toBe('later')
  const refused = client.start({ method: 'POST', key: null, fields, open: true })
  expect(await client.answer(refused)).toMatchObject({ status: 401, interim: [], complete: true })
})

test('an answer before the end of a body is whole, and ends that stream alone', async () => {
  const { client, ...wire } = await openH2({
    requestsMayBreakOff: true,
    server: 'limits: { bodyBytes: 4KiB }',
  })
  const beside = client.start({ method: 'POST', body: 'a', open: true })
  const large = { method: 'POST', body: 'x'.repeat(500_000) }
  const answers = await Promise.all([
    client.request({ ...large, key: null }),
    client.request(large),
    client.request({ ...large, fields: ['content-length', '500000'] }),
    client.request({ path: '/v1/pets#' }),
    client.request({ method: 'HEAD', body: 'x' }),
  ])
  const told = answers.map(
    ({ status, body }) => `${status} ${/"code":"(\w+)/.exec(String(body))?.[1]}`,
  )
  expect(told.join()).toBe(
    '401 missing_api_key,413 body_too_large,413 body_too_large,400 invalid_request,400 undefined',
  )
  for (const got of answers) {
    expectGatewayFields(got)
    expect([got.complete, got.all('connection')]).toEqual([true, []])
  }
  beside.end('b')
  expect((await client.answer(beside)).status).toBe(200)
  expect(wire.backend.requests.at(-1)?.body.toString()).toBe('ab')
  expect(client.goaway).toBeUndefined()
  expect(await wire.charged()).toBe(1)
})

test('a request that is taken back ends that of the backend; one that broke off is none', async () => {
  const { client, ...wire } = await openH2({
    requestsMayBreakOff: true,
    respond: () => undefined,
    server: 'limits: { bufferedBody: 4KiB }',
  })
  const waiting = client.start()
  await until(() => wire.backend.requests.length === 1)
  waiting.close(8)
  await until(() => wire.backend.connections[0]?.closed === true, 'the end at the backend')
  // NO_ERROR in the middle of a body, which Node would take for its end.
  const peer = await openH2Peer(wire.gateway.port)
  peer.send(
    headers(1, POST, END_HEADERS),
    ...Array.from({ length: 4 }, () => frame(types.data, 0, 1, Buffer.alloc(16_000))),
  )
  await until(() => (wire.backend.connections[1]?.raw().length ?? 0) > 0, 'the body at the backend')
  peer.send(frame(types.rst, 0, 1, uint32(0)))
  await until(() => wire.backend.connections[1]?.closed === true, 'the end at the backend')
  expect(wire.backend.requests).toHaveLength(1)
  const lines = await wire.accessLines(2)
  expect(lines.map(({ status }) => status)).toEqual([499, 499])
  expect((await client.request({ key: null })).status).toBe(401)
  peer.destroy()
})

test('an answer that is taken back in its middle is not recorded as complete', async () => {
  const { client, ...wire } = await openH2({
    requestsMayBreakOff: true,
    respond: () => 'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf',
  })
  const stream = client.start()
  stream.once('data', () => stream.close(8))
  const [line] = await wire.accessLines(1)
  expect(line).toMatchObject({
    status: 200,
    cause: 'the client left before the answer was complete',
  })
})

test('an answer that is cut off does not look complete', async () => {
  const { client } = await openH2({
    respond: () => ['HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf', 50, closeConnection],
  })
  const got = await client.request()
  expect(got).toMatchObject({ status: 200, complete: false, code: 2 })
  expect((await client.request({ key: null })).status).toBe(401)
})

test('each of a hundred streams is charged, and no more at once go on than the plan has', async () => {
  let now = 0
  let most = 0
  const respond = async () => {
    most = Math.max(most, ++now)
    await sleep(50)
    now--
    return answer(200, 'ok')
  }
  const { client, ...wire } = await openH2({ respond })
  const answers = await Promise.all(Array.from({ length: 100 }, () => client.request()))
  const served = answers.filter(({ status }) => status === 200).length
  expect(answers.filter(({ status }) => status === 429)).toHaveLength(100 - served)
  expect(wire.served()).toHaveLength(served)
  expect(most).toBeLessThanOrEqual(32)
  expect(await wire.charged()).toBe(served)
})

test('a body that does not come in time is refused, in its stream alone', async () => {
  const { client, ...wire } = await openH2({
    requestsMayBreakOff: true,
    server:
      'limits: { bufferedBody: 0B, minimumRate: 0B }\n  timeouts: { request: 1s, headers: 1s, drain: 1s }',
  })
  const late = client.start({ method: 'POST', body: 'x', open: true })
  expect(await client.answer(late)).toMatchObject({ status: 408, complete: true })
  expect((await client.request()).status).toBe(200)
  expect(await wire.accessLines(2)).toMatchObject([{ status: 408 }, { status: 200 }])
})

test('a stop lets streams finish, tells its clients, and takes nothing new', async () => {
  const { client, ...wire } = await openH2({
    server: 'timeouts: { drain: 10s }',
    respond: () => [300, answer(200, 'ok')],
    stopsItself: true,
  })
  const waiting = client.request()
  await until(() => wire.backend.requests.length === 1)
  const stopped = wire.gateway.stop()
  expect(await waiting).toMatchObject({ status: 200, complete: true })
  expect(client.goaway).toBe(0)
  await stopped
})

test('a stop ends connections that have not said yet which protocol they speak', async () => {
  const { connect, gateway } = await openWire({
    server: clear('timeouts: { headers: 60s, drain: 60s }'),
    stopsItself: true,
  })
  const silent = [await connect(), await connect(), await connect()]
  silent[1]?.send('PRI * HT')
  silent[2]?.end()
  await silent[2]?.waitFor(({ closed }) => closed)
  await gateway.stop()
  for (const one of silent) await one.waitFor(({ closed }) => closed)
})

test('a stop that has waited long enough answers what it cuts off, and records it before it ends', async () => {
  const { client, ...wire } = await openH2({
    server: 'timeouts: { drain: 200ms }',
    respond: ({ target }) =>
      target === '/v1/pets' ? undefined : 'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf',
    stopsItself: true,
  })
  const half = client.start({ path: '/v1/pets/half' })
  const answers = Promise.all([client.request(), client.answer(half)])
  await once(half, 'data')
  await until(() => wire.backend.requests.length === 2)
  await wire.gateway.stop()
  expect(await answers).toMatchObject([
    { status: 503, complete: true },
    { status: 200, complete: false },
  ])
  const ends = wire.gateway.logLines().slice(-3)
  const words = ends.map(({ event, status }) => String(status ?? event))
  expect(words.sort()).toEqual(['200', '503', 'drained'])
  expect(ends.at(-1)).toMatchObject({ event: 'drained', cutOff: 2 })
})

test.each([0, 40])('a stop after %i ms records all that a backend has seen', async (drainMs) => {
  const server = `timeouts: { drain: ${drainMs}ms }`
  const { client, ...wire } = await openH2({ server, respond: () => undefined, stopsItself: true })
  // No answer has room for its body.
  client.session.settings({ initialWindowSize: 0 })
  await once(client.session, 'localSettings')
  const streams = Array.from({ length: 90 }, () => client.start())
  await until(() => wire.backend.requests.length > 0)
  await wire.gateway.stop()
  const lines = wire.gateway.logLines()
  expect(lines.at(-1)).toMatchObject({ event: 'drained' })
  const recorded = lines.filter(({ event }) => event === 'access').map(({ id }) => id)
  await once(client.session, 'close')
  expect(new Set(recorded).size).toBe(recorded.length)
  for (const seen of wire.backend.requests) expect(recorded).toContain(seen.all('x-request-id')[0])
  expect(streams.every(({ closed }) => closed)).toBe(true)
})

test.each(engines)(
  'what is decided in the last turn of such a stop is sent, by %s',
  async (engine) => {
    const { promise: decided, resolve: decide } = Promise.withResolvers<void>()
    const drainMs = 20
    const { client, ...wire } = await openH2({
      engine,
      server: `timeouts: { drain: ${drainMs}ms }`,
      respond: async () => (await decided, answer(200, 'ok')),
      stopsItself: true,
    })
    const waiting = client.request()
    await until(() => wire.backend.requests.length === 1)
    const stopped = wire.gateway.stop()
    // Both timers are due in one turn, so that the answer comes in the next, the last of the stop.
    setTimeout(() => setImmediate(decide), drainMs)
    for (const endMs = performance.now() + drainMs + 5; performance.now() < endMs;);
    await stopped
    expect(await waiting).toMatchObject({ status: 200, complete: true })
    const [line] = await wire.accessLines(1)
    expect([line?.status, line?.['cause']]).toEqual([200, undefined])
  },
)
