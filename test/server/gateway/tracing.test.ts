/** What a collector gets of requests, what backends and the log hear of their traces, and who may say what is traced. */
import { once } from 'node:events'
import { createServer, get, type IncomingHttpHeaders, type IncomingMessage } from 'node:http'
import { connect } from 'node:http2'
import { describe, expect, it, onTestFinished } from 'vitest'
import { WebSocket, WebSocketServer } from 'ws'
import { gatewayTo } from '../../support/backed.ts'
import { keys, startTestGateway } from '../../support/gateway.ts'
import type { GatewayInit, TestGateway } from '../../support/gateway.ts'
import { listening } from '../../support/listening.ts'
import { startCollector, type CollectedSpan } from '../../support/otlp.ts'
import { sharedRedis } from '../../support/redis-server.ts'

const traceId = '0af7651916cd43dd8448eb211c80319c'
const spanId = 'b7ad6b7169203331'
const sampled = `00-${traceId}-${spanId}-01`

interface Heard {
  readonly url: string
  readonly headers: IncomingHttpHeaders
}

/** Breaks the connection of what asks for it, and takes WebSockets. */
async function startBackend(heard: Heard[], isFlaky: boolean): Promise<string> {
  const server = createServer(({ url = '', headers, socket }, response) => {
    heard.push({ url, headers })
    if (isFlaky && url.includes('break')) socket.destroy()
    else response.writeHead(url.includes('fail') ? 503 : 200).end('ok')
  })
  new WebSocketServer({ server }).on('connection', (socket, { url = '', headers }) => {
    heard.push({ url, headers })
    socket.close(1000)
  })
  return `http://127.0.0.1:${await listening(server)}`
}

const heard: Heard[] = []
const collector = await startCollector()
const backends = [await startBackend(heard, false), await startBackend(heard, true)]

const start = async (sample: string, more: Record<string, string> = {}): Promise<TestGateway> => {
  const telemetry = `telemetry: { otlp: "${collector.url}", sample: ${sample} }`
  return startTestGateway({ upstreams: backends, blocks: { telemetry, ...more } })
}
const { url, prefix } = sharedRedis()
const all = await start('100%', {
  upstream: `upstream: { urls: [${backends.join(', ')}], balance: round-robin }`,
  store: `store: { redis: "${url}", prefix: ${prefix}, lease: off }`,
})
/** Traces what a proxy at 127.0.0.2 says. */
const told = await start('0%', {
  server: 'server: { listen: "127.0.0.1:0", trustedProxies: [127.0.0.2], http2: clear }',
})

/** A request of our own: its spans are found by it. */
let count = 0
const unique = (path: string): string => `${path}${path.includes('?') ? '&' : '?'}n=${(count += 1)}`

const heardOf = (path: string): IncomingHttpHeaders[] =>
  heard.filter(({ url }) => url === path).map(({ headers }) => headers)

/** All spans of the trace, once those that are expected have come. */
async function spansOf(trace: unknown, expected: number): Promise<CollectedSpan[]> {
  const found = () => collector.spans.filter((span) => span.traceId === trace)
  await expect.poll(() => found().length).toBe(expected)
  return found()
}

/** The trace of a request, as the log has it. */
const traceOf = async (gateway: TestGateway, id: unknown) => {
  const line = () => gateway.lines('access').find((one) => one['id'] === id)
  await expect.poll(line).toBeDefined()
  return line()?.['trace']
}

const served = async (path: string, init: GatewayInit = {}) => {
  const { status, header } = await all.ask(path, { key: keys.pro, ...init })
  return { status, trace: await traceOf(all, header('x-request-id')) }
}

describe('spans', () => {
  it('tell of the request, the store and the backend, in the words of the conventions', async () => {
    const path = unique('/v1/pets/7')
    const { trace } = await served(path)
    const [request, store, attempt] = await spansOf(trace, 3)
    const [headers] = heardOf(path)
    expect(request).toMatchObject({
      name: 'GET /v1/pets/{petId}',
      kind: 'server',
      parentId: undefined,
      status: 'unset',
      scope: 'tollgate',
      resource: {
        'service.name': 'tollgate',
        'service.version': '0.0.0-test',
        'process.pid': process.pid,
      },
      attributes: {
        'http.request.method': 'GET',
        'http.route': '/v1/pets/{petId}',
        'http.response.status_code': 200,
        'network.protocol.version': '1.1',
        'url.scheme': 'http',
        'url.path': '/v1/pets/7',
        'tollgate.client': 'pro-client',
        'tollgate.plan': 'pro',
        'tollgate.request.id': headers?.['x-request-id'],
      },
    })
    expect(store).toMatchObject({
      name: 'take quota',
      kind: 'client',
      parentId: request?.spanId,
      attributes: { 'tollgate.quota.outcome': 'admitted' },
    })
    const kind = 'client'
    const own = { name: 'GET', kind, parentId: request?.spanId, status: 'unset' }
    expect(attempt).toMatchObject(own)
    const backend = String(attempt?.attributes['tollgate.backend'])
    expect(attempt?.attributes).toEqual({
      'http.request.method': 'GET',
      'http.response.status_code': 200,
      'server.address': '127.0.0.1',
      'server.port': Number(new URL(backend).port),
      'tollgate.backend': backend,
    })
    expect(headers?.['traceparent']).toBe(`00-${String(trace)}-${attempt?.spanId}-03`)
    for (const child of [store, attempt]) {
      expect(child?.startMs).toBeGreaterThanOrEqual(request?.startMs ?? Infinity)
      expect(child?.endMs).toBeLessThanOrEqual(request?.endMs ?? 0)
    }
    expect(store?.endMs).toBeLessThanOrEqual(attempt?.startMs ?? 0)
  })

  it('hold no secret: no key, no query, no header, no path that no route has', async () => {
    const headers = { cookie: 'sid=s3cret', 'x-secret': 's3cret' }
    const traces = [
      (await served(unique('/v1/pets?token=s3cret'), { headers })).trace,
      (await served(unique('/v1/s3cret?token=s3cret'), { headers })).trace,
    ]
    for (const trace of traces) {
      const text = JSON.stringify(await spansOf(trace, 3))
      expect(text).not.toContain('s3cret')
      expect(text).not.toContain(keys.pro)
    }
  })

  it('show each attempt: the one that failed, why, and the one on the next backend', async () => {
    // Every second request comes to the backend that breaks.
    const runs: Awaited<ReturnType<typeof served>>[] = []
    // A machine that is late sheds load.
    while (runs.length < 2) {
      const run = await served(unique('/v1/pets?break'))
      if (run.status !== 503) runs.push(run)
    }
    expect(runs.map(({ status }) => status)).toEqual([200, 200])
    const attempts = () =>
      runs.map(({ trace }) =>
        collector.spans.filter((span) => span.traceId === trace && span.name === 'GET'),
      )
    const repeated = () => attempts().find(({ length }) => length === 2)
    await expect.poll(repeated).toBeDefined()
    const [failed, good] = repeated() ?? []
    expect(failed).toMatchObject({ status: 'error', attributes: { 'error.type': 'broken' } })
    expect(failed?.message).not.toBe('')
    expect(good).toMatchObject({
      status: 'unset',
      parentId: failed?.parentId,
      attributes: { 'http.request.resend_count': 1, 'http.response.status_code': 200 },
    })
    expect(good?.startMs).toBeGreaterThanOrEqual(failed?.endMs ?? Infinity)
    const told = heard
      .filter(({ url }) => url.includes('break'))
      .map(({ headers }) => headers['traceparent'])
    for (const attempt of [failed, good])
      expect(told).toContain(`00-${attempt?.traceId}-${attempt?.spanId}-03`)
  })

  it('are errors where the backend or the gateway failed, and tell what was refused', async () => {
    const failed = await spansOf((await served(unique('/v1/pets?fail'))).trace, 3)
    expect(failed.map(({ status }) => status)).toEqual(['error', 'unset', 'error'])
    expect(failed[0]?.attributes).toMatchObject({
      'http.response.status_code': 503,
      'error.type': '503',
    })
    const { trace } = await served('/v1/pets', { key: 'tg_test_unknown' })
    const [refused] = await spansOf(trace, 1)
    expect(refused).toMatchObject({
      name: 'GET /v1/pets',
      status: 'unset',
      attributes: { 'http.response.status_code': 401, 'tollgate.refusal': 'invalid_api_key' },
    })
    expect(refused?.attributes).not.toHaveProperty('tollgate.client')
  })

  it('last as long as a WebSocket does', async () => {
    const path = unique('/v1/live')
    const open = async (): Promise<IncomingMessage> => {
      const socket = new WebSocket(`ws://127.0.0.1:${all.port}${path}`, {
        headers: { authorization: `Bearer ${keys.pro}` },
      })
      const [upgraded] = (await once(socket, 'upgrade')) as [IncomingMessage]
      await once(socket, 'close')
      return upgraded
    }
    // On a machine without a processor to spare the store may be late, which is 503.
    const { headers } = await open().catch(open)
    const spans = await spansOf(await traceOf(all, headers['x-request-id']), 3)
    expect(spans[0]).toMatchObject({
      name: 'GET /v1/live',
      attributes: { 'http.response.status_code': 101 },
    })
    expect(heardOf(path)[0]?.['traceparent']).toContain(spans[2]?.spanId)
  })
})

describe('the trace of a client', () => {
  /** Of its own trace. */
  const beginning = (start: string) => sampled.replace('0af7', start)
  const tell = async (address: string, headers: Record<string, string>) => {
    const path = unique('/v1/pets')
    const options = {
      localAddress: address,
      headers: { authorization: `Bearer ${keys.pro}`, ...headers },
      agent: false,
    }
    const [response] = (await once(get(`${told.origin}${path}`, options), 'response')) as [
      IncomingMessage,
    ]
    response.resume()
    const logged = await traceOf(told, response.headers['x-request-id'])
    const [{ traceparent, tracestate } = {}] = heardOf(path)
    const [, trace = '', span = '', flags] = String(traceparent).split('-')
    return { trace, span, flags, tracestate, logged }
  }

  it('goes on where a trusted proxy began it: our spans are part of its', async () => {
    const tracestate = 'congo=t61rcWkgMzE'
    const { span, ...rest } = await tell('127.0.0.2', { traceparent: sampled, tracestate })
    expect(rest).toEqual({ trace: traceId, flags: '01', tracestate, logged: traceId })
    const [request, attempt] = await spansOf(traceId, 2)
    const above = { parentId: spanId, traceState: tracestate, flags: 0x301 }
    expect(request).toMatchObject(above)
    expect(attempt).toMatchObject({ spanId: span, parentId: request?.spanId, flags: 0x101 })
  })

  it.each([
    ['a trusted proxy that records nothing', '127.0.0.2', '1111', '00'],
    ['anyone else, whatever it says', '127.0.0.1', '2222', '01'],
  ])('is kept, but nothing is recorded for %s', async (_, address, start, asked) => {
    const traceparent = beginning(start).replace(/01$/, asked)
    const id = traceId.replace('0af7', start)
    const { trace, span, flags, logged } = await tell(address, { traceparent, tracestate: 'k=v' })
    expect([trace, flags, logged]).toEqual([id, '00', id])
    expect(span).not.toBe(spanId)
    // A request that is recorded comes behind it.
    await tell('127.0.0.2', { traceparent: beginning(`f${start.slice(1)}`) })
    await spansOf(traceId.replace('0af7', `f${start.slice(1)}`), 2)
    expect(collector.spans.map((one) => one.traceId)).not.toContain(id)
  })

  it.each([
    ['none', {}],
    ['one that is malformed', { traceparent: `${sampled}-01`, tracestate: 'k=v' }],
    ['a tracestate alone', { tracestate: 'k=v' }],
  ])('begins anew where it sends %s', async (_, headers) => {
    const { trace, flags, tracestate, logged } = await tell('127.0.0.2', headers)
    expect(trace).toMatch(/^[0-9a-f]{32}$/)
    expect(trace).not.toBe(traceId)
    expect([flags, tracestate, logged]).toEqual(['02', undefined, trace])
  })

  it('is read on HTTP/2 too', async () => {
    const session = connect(told.origin, { localAddress: '127.0.0.2' } as object)
    onTestFinished(() => session.destroy())
    const stream = session.request({
      ':path': '/v1/pets',
      authorization: `Bearer ${keys.pro}`,
      traceparent: beginning('abcd'),
    })
    await new Promise((resolve) => stream.resume().once('close', resolve))
    const [request] = await spansOf(traceId.replace('0af7', 'abcd'), 2)
    expect(request).toMatchObject({
      parentId: spanId,
      attributes: { 'network.protocol.version': '2' },
    })
  })
})

it('without telemetry the fields of the client pass untouched, and no line names a trace', async () => {
  const gateway = await gatewayTo(backends)
  const path = unique('/v1/pets')
  const odd = { traceparent: 'what ever', tracestate: ',,' }
  await gateway.status(path, { key: keys.pro, headers: odd })
  expect(heardOf(path)[0]).toMatchObject(odd)
  await expect.poll(() => gateway.lines('access')).toHaveLength(1)
  expect(gateway.logLines().some((line) => 'trace' in line)).toBe(false)
})

it('all that a collector was sent is as the specification wants it', () => {
  expect(collector.spans.length).toBeGreaterThan(20)
  expect(collector.problems).toEqual([])
})
