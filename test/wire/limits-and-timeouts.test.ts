/** Sizes and times that a request may take: what passes them is refused and closed, for free, before any backend has seen it. */
import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { expectLogged, expectOnlyRefusal, request, SMALL_LIMITS, openWire } from './wire.ts'

const SMUGGLED = request('GET', '/v1/pets/smuggled')
const CHUNKED = 'Transfer-Encoding: chunked'
const small = { server: SMALL_LIMITS }
const quick = { server: 'timeouts: { headers: 800ms, request: 1s, idle: 800ms, drain: 1s }' }
const chunk = (size: number): string => `${size.toString(16)}\r\n${'x'.repeat(size)}\r\n`
/** Header fields such as X-1: 1, so many. */
const fieldLines = (count: number): string[] =>
  Array.from({ length: count }, (_, at) => `X-${at}: ${at}`)
const get = (...fields: string[]): string => request('GET', '/v1/pets', { fields })
const post = (field: string, body = ''): string =>
  request('POST', '/v1/pets', { fields: [field], body })

const tooManyFields = [431, 'headers_too_large'] as const
const tooLong = [414, 'uri_too_long'] as const
const tooLarge = [413, 'body_too_large'] as const
const tooLate = [408, 'request_timeout'] as const
const target = (bytes: number): string => request('GET', `/v1/pets/${'x'.repeat(bytes)}`)

describe('a request beyond a limit', () => {
  it.each([
    ['thousands of header fields', get(...fieldLines(3_000)), tooManyFields],
    ['a header field beyond the limit', get(`X-Big: ${'x'.repeat(2_100)}`), tooManyFields],
    ['a header field beyond that of the parser', get(`X: ${'x'.repeat(300_000)}`), tooManyFields],
    [
      'a field name without an end',
      `GET /v1/pets HTTP/1.1\r\n${'x'.repeat(100_000)}`,
      tooManyFields,
    ],
    ['a target beyond the limit of the parser', target(200_000), tooLong],
    [
      'a declared body of many bytes, sent at once',
      post('Content-Length: 2000000', 'x'.repeat(2_000_000)),
      tooLarge,
    ],
  ])('is refused and closed: %s', async (_, bytes, refusal) => {
    const wire = await openWire(small)
    const { gateway } = wire
    const got = await expectOnlyRefusal(wire, bytes + SMUGGLED, refusal)
    // The credential was not read: the limit of the address, which this costs nothing.
    expect(got?.header('x-ratelimit-limit')).toBe('60')
    expect(got?.header('x-ratelimit-remaining')).toBe('60')
    await expectLogged(gateway, got)
    expect(await gateway.metric(`tollgate_refusals_total{code="${refusal[1]}"`)).toBe(1)
  })

  it('is taken when it just fits', async () => {
    const { exchange, backend, charged } = await openWire(small)
    const { statuses } = await exchange(
      target(503) +
        get(...fieldLines(18)) +
        get(`X-Big: ${'x'.repeat(1_900)}`) +
        post('Content-Length: 4096', 'x'.repeat(4_096)) +
        post(CHUNKED, `${chunk(2_048)}${chunk(2_048)}0\r\n\r\n`),
      { responses: 5 },
    )
    expect(statuses).toEqual([200, 200, 200, 200, 200])
    expect(backend.requests.filter(({ body }) => body.length === 4_096)).toHaveLength(2)
    expect(await charged()).toBe(5)
  })
})

describe('a body', () => {
  it.each([
    ['in one chunk', `${chunk(5_000)}0\r\n\r\n`],
    ['in many chunks', `${chunk(100).repeat(50)}0\r\n\r\n`],
    ['without an end', chunk(1_000_000)],
  ])('that grows too large %s is refused with 413, for free', async (_, body) => {
    const wire = await openWire({ ...small, requestsMayBreakOff: true })
    await expectOnlyRefusal(wire, post(CHUNKED, body), tooLarge)
    const [line] = await wire.accessLines(1)
    expect(line).toMatchObject({ status: 413, refusal: 'body_too_large' })
    expect(line?.requestBytes).toBeGreaterThan(4_096)
  })

  it.each([
    ['declared', post('Content-Length: 10', '{')],
    ['chunked', post(CHUNKED, '1\r\n{\r\n')],
  ])('that does not arrive in time is refused with 408, for free: %s', async (_, bytes) => {
    const wire = await openWire({ ...quick, requestsMayBreakOff: true })
    await expectOnlyRefusal(wire, bytes, tooLate)
    expect(await wire.accessLines(1)).toMatchObject([{ status: 408, requestBytes: 1 }])
    expect(wire.backend.connections).toEqual([])
  })
})

it.each([
  ['request', '', get()],
  ['body', post('Content-Length: 2', '{'), '}'],
])(
  'a %s that came in time is answered, though the process stood still before it could read it',
  async (_, before, rest) => {
    const { connect } = await openWire(quick)
    const client = await connect(before)
    await sleep(50)
    // From here on timers have their turn before anything is read.
    await turn()
    client.send(rest)
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_100)
    expect((await client.waitForResponses(1)).statuses).toEqual([200])
  },
)

describe.concurrent('a client that is too slow', () => {
  it.for<[string, string]>([
    ['request line', 'GET /v1/p'],
    ['header', 'GET /v1/pets HTTP/1.1\r\nHost: a'],
  ])('is told 408 and closed in the middle of its %s', async ([, bytes], { onTestFinished }) => {
    const wire = await openWire({ ...quick, onTestFinished })
    await expectLogged(wire.gateway, await expectOnlyRefusal(wire, bytes, tooLate))
    const counted = 'tollgate_refusals_total{code="request_timeout"'
    expect(await wire.gateway.metric(counted)).toBe(1)
  })

  it('cannot win time by sending a byte now and then', async ({ onTestFinished }) => {
    const { connect, served } = await openWire({ ...quick, onTestFinished })
    const client = await connect()
    const bytes = get(`X-Slow: ${'x'.repeat(1_000)}`)
    let at = 0
    while (!client.received().closed && at < bytes.length) {
      client.send(bytes[at++] ?? '')
      await sleep(50)
    }
    expect(at).toBeLessThan(bytes.length)
    expect(client.received().responses[0]?.status).toBe(408)
    expect(served()).toEqual([])
  })

  it('is closed when it never sends anything', async ({ onTestFinished }) => {
    const { connect } = await openWire({ ...quick, onTestFinished })
    await (await connect()).waitFor(({ closed }) => closed)
  })

  it('is closed without a word when it is idle between two requests', async ({
    onTestFinished,
  }) => {
    const { connect, accessLines } = await openWire({ ...quick, onTestFinished })
    const client = await connect(get())
    await client.waitForResponses(1)
    const { responses } = await client.waitFor(({ closed }) => closed)
    expect([responses.length, (await accessLines(1)).length]).toEqual([1, 1])
  })

  it('is told 408 behind the answers to what it sent before', async ({ onTestFinished }) => {
    const { connect, charged } = await openWire({
      ...quick,
      respond: () => [1_500, 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'],
      onTestFinished,
    })
    const client = await connect(`${get()}GET /v1/p`)
    const { problem, statuses } = await client.waitFor(({ closed }) => closed)
    expect(problem).toBeUndefined()
    expect([statuses, await charged()]).toEqual([[200, 408], 1])
  })
})
