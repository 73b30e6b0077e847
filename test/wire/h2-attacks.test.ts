/** What clients of HTTP/2 may hold, and at whose cost: each attack is ended and counted, takes no memory, and a bystander is answered. */
import { expect, onTestFinished, test } from 'vitest'
import { setTimeout as sleep } from 'node:timers/promises'
import { startTestGateway, keys, type TestGateway } from '../support/gateway.ts'
import { openH2Client } from '../support/h2-client.ts'
import { END_HEADERS, END_STREAM, frame, headers, hpack } from '../support/h2-frames.ts'
import { openH2Peer, settings, types, uint32, type H2Peer } from '../support/h2-frames.ts'
import type { Http2Abuse } from '../../src/core/rules/http2-abuse.ts'
import { answer, closeConnection, startRawBackend, type Answer } from '../support/raw-backend.ts'
import { serverBlock } from './wire.ts'

const answers: Record<string, Answer> = {
  '/v1/pets/large': answer(200, Buffer.alloc(600_000)),
  '/v1/pets/cut': ['HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf', 20, closeConnection],
}
const SILENT = '/v1/pets/silent'
const backend = await startRawBackend({
  respond: ({ target }) => (target === SILENT ? undefined : (answers[target] ?? answer(200, 'ok'))),
})

/** headers: how long it waits for a request; limits: further keys of `server`. */
function startGateway({ headers: waits = '20s', limits = '' } = {}): Promise<TestGateway> {
  const server = serverBlock(
    `http2: clear\n  proxyProtocol: true\n  trustedProxies: [127.0.0.1]\n  timeouts: { headers: ${waits}, idle: 60s, drain: 1s }\n  ${limits}`,
  )
  const upstream = `upstream: { urls: ["${backend.url}"], connections: 800 }`
  return startTestGateway({ upstreams: [], blocks: { server, upstream } })
}

const gateway = await startGateway()

let peers = 0
/** Each from another address: that of one who was ended now and then gets no more connections. */
const openPeer = (of = gateway, options = {}): Promise<H2Peer> =>
  open(of, { ...options, from: `192.0.2.${++peers}` })
/** It ends with the test. */
async function open(of: TestGateway, options: Parameters<typeof openH2Peer>[1]): Promise<H2Peer> {
  const peer = await openH2Peer(of.port, options)
  onTestFinished(peer.destroy)
  return peer
}
async function openBystander() {
  const client = await openH2Client(gateway.port, { from: '198.51.100.1' })
  onTestFinished(client.close)
  return client
}

const ROUNDS = 200

const request = (path = '/v1/pets', method = 'GET', key: string = keys.enterprise) => {
  const pseudo = [':method', method, ':path', path, ':scheme', 'http', ':authority', 'api.example']
  return [...pseudo, 'authorization', `Bearer ${key}`]
}
/** A client that reads nothing asks for as many large answers. */
const hoard = (peer: H2Peer, fields: (on: number) => readonly string[]): void =>
  peer.send(
    settings([4, 0]),
    streams(0, 100, (on) => [headers(on, fields(on))]),
  )
const times = (count: number, make: (at: number) => Buffer): Buffer =>
  Buffer.concat(Array.from({ length: count }, (_, at) => make(at)))
/** Ids of the streams of a round. */
const id = (round: number, count: number, at: number): number => 2 * (round * count + at) + 1
/** A literal that is indexed, then as often as fits: a frame of 16 KiB is fields of 60 MB. */
const bomb = (round: number): Buffer => {
  const first = Buffer.concat([
    Buffer.from([0x40, 1, 0x61, 0x7f, 0xa1, 0x1e]),
    Buffer.alloc(4000, 97),
  ])
  const block = Buffer.concat([
    hpack(request()),
    round === 0 ? first : Buffer.alloc(0),
    Buffer.alloc(12_000, 0xbe),
  ])
  return frame(types.headers, END_STREAM | END_HEADERS, id(round, 1, 0), block)
}

const POST = request('/v1/pets', 'POST')
/** On as many new streams. */
const streams = (round: number, count: number, make: (stream: number) => Buffer[]): Buffer =>
  times(count, (at) => Buffer.concat(make(id(round, count, at))))

/** What is sent in each round until the connection has ended. */
const floods: Record<string, (round: number) => Buffer> = {
  'rapid reset': (round) =>
    streams(round, 50, (on) => [headers(on, request()), frame(types.rst, 0, on, uint32(8))]),
  'resets that we are made to send': (round) =>
    streams(round, 50, (on) => [
      headers(on, POST, END_HEADERS),
      frame(types.priority, 0, on, Buffer.concat([uint32(on), Buffer.from([1])])),
    ]),
  'ten thousand streams': (round) => streams(round, 200, (on) => [headers(on, POST, END_HEADERS)]),
  'an HPACK bomb': bomb,
  '1500 fields': (round) =>
    headers(id(round, 1, 0), [...request(), ...Array<string>(3000).fill('a')]),
  CONTINUATION: (round) =>
    round === 0
      ? headers(1, request(), 0)
      : times(50, () => frame(types.continuation, 0, 1, hpack(['x', 'y'.repeat(1000)]))),
  PING: () => times(200, () => frame(types.ping, 0, 0, Buffer.alloc(8))),
  SETTINGS: () => times(200, () => settings([3, 100])),
  PRIORITY: () => times(1000, () => frame(types.priority, 0, 3, [0, 0, 0, 0, 1])),
  'frames of an unknown type': () => times(1000, () => frame(99, 0, 0, Buffer.alloc(8))),
  'empty DATA': (round) =>
    round === 0 ? headers(1, POST, END_HEADERS) : times(1000, () => frame(types.data, 0, 1)),
  'WINDOW_UPDATE of 1': () => times(1000, () => frame(types.window, 0, 0, uint32(1))),
  'malformed requests': (round) => streams(round, 30, (on) => [headers(on, ['x', 'y'])]),
}

/** Of these kinds. */
async function counted(...kinds: readonly Http2Abuse[]): Promise<number> {
  let sum = 0
  for (const kind of kinds) sum += await countedOf(gateway, kind)
  return sum
}

const countedOf = (of: TestGateway, kind: Http2Abuse): Promise<number> =>
  of.metric(`tollgate_http2_abuse_total{kind="${kind}"}`)

async function untilClosed(peer: H2Peer, round: (at: number) => Buffer | undefined): Promise<void> {
  for (let at = 0; at < ROUNDS && !peer.closed; at++) {
    const bytes = round(at)
    if (bytes !== undefined) peer.send(bytes)
    await sleep(10)
  }
  await peer.waitFor(() => peer.closed, 'the end of the connection')
}

const ends = ['flood', 'frames', 'reset'] as const

test.each(Object.entries(floods).map(([name, round]) => ({ name, round })))(
  '$name ends its connection, and nobody else feels it',
  async ({ round }) => {
    const bystander = await openBystander()
    const before = await counted(...ends)
    const rssBefore = process.memoryUsage().rss
    const peer = await openPeer()
    const [answers] = await Promise.all([
      Promise.all(Array.from({ length: 20 }, () => bystander.request({ key: keys.business }))),
      untilClosed(peer, round),
    ])
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200))
    expect(await counted(...ends)).toBeGreaterThan(before)
    expect(process.memoryUsage().rss - rssBefore).toBeLessThan(200 * 2 ** 20)
    bystander.close()
  },
)

test.each([
  { name: 'requests with a body', path: '/v1/pets', body: 'x'.repeat(1000), complete: true },
  { name: 'answers that the backend breaks off', path: '/v1/pets/cut', complete: false },
])('$name are not counted as taken back, however many', async ({ path, body, complete }) => {
  const before = await counted(...ends)
  const client = await openBystander()
  const asked = { path, key: keys.enterprise, ...(body && { method: 'POST', body }) }
  const got = new Set<string>()
  const linesBefore = gateway.logLines().length
  for (let round = 0; round < 30; round++) {
    const one = () => client.request(asked)
    for (const answered of await Promise.all(Array.from({ length: 20 }, one)))
      got.add(`${answered.status} ${answered.complete}`)
  }
  expect([...got]).toEqual([`200 ${complete}`])
  expect([client.goaway, await counted(...ends)]).toEqual([undefined, before])
  const lines = gateway.logLines().slice(linesBefore)
  expect(lines.filter(({ cause }) => /client left/.test(String(cause)))).toEqual([])
})

test('a request that is taken back in the same breath is counted, and not begun', async () => {
  const before = await counted('reset')
  const seen = backend.requests.length
  const peer = await openPeer()
  peer.send(headers(1, request()), frame(types.rst, 0, 1, uint32(8)))
  await expect.poll(() => counted('reset')).toBe(before + 1)
  expect(backend.requests).toHaveLength(seen)
})

test('answers that nobody reads hold no more than a client may hold, and not for long', async () => {
  const [peers, bystander] = await Promise.all([
    Promise.all([1, 2].map(() => openPeer())),
    openBystander(),
  ])
  const large = request('/v1/pets/large', 'GET', keys.free)
  for (const peer of peers) hoard(peer, () => large)
  for (let at = 0; at < 10; at++)
    expect((await bystander.request({ key: keys.business })).status).toBe(200)
  await expect.poll(() => counted('stalled'), { interval: 100 }).toBeGreaterThanOrEqual(30)
})

test('what waits for all clients together is bounded: who holds most has to go', async () => {
  // A busy machine would find those who read nothing too slow before they hold as much.
  const patient = await startGateway({ limits: 'limits: { minimumRate: 0B }' })
  const peers = await Promise.all(Array.from({ length: 8 }, () => openPeer(patient)))
  // One client alone has too few requests at once to hold as much.
  const clients = [keys.enterprise, keys.business, keys.pro]
  for (const [at, peer] of peers.entries())
    hoard(peer, () => request('/v1/pets/large', 'GET', clients[at % clients.length]))
  await expect.poll(() => countedOf(patient, 'held'), { interval: 100 }).toBeGreaterThanOrEqual(1)
  expect(peers.filter(({ closed }) => !closed).length).toBeGreaterThan(0)
  for (const peer of peers) peer.destroy()
  await patient.stop()
})

/** A connection of a trusted proxy, and what comes on it for somebody. */
const openShared = (of = gateway): Promise<H2Peer> => open(of, { from: '127.0.0.1' })
const forwarded = (fields: readonly string[], address: string): string[] => [
  ...fields,
  'x-forwarded-for',
  address,
]
const evil = '203.0.113.6'
test('on connections of trusted proxies the answers go of the address that holds most, and no others', async () => {
  const patient = await startGateway({ limits: 'limits: { minimumRate: 0B }' })
  const proxies = await Promise.all(Array.from({ length: 8 }, () => openShared(patient)))
  const clients = [keys.enterprise, keys.business, keys.pro]
  for (const [at, peer] of proxies.entries()) {
    const large = request('/v1/pets/large', 'GET', clients[at % clients.length])
    hoard(peer, (on) => forwarded(large, on === 1 ? '198.51.100.7' : evil))
  }
  await expect.poll(() => countedOf(patient, 'held'), { interval: 100 }).toBeGreaterThan(50)
  const [open, ...found] = [false, undefined, undefined]
  for (const peer of proxies)
    expect([peer.closed, peer.find(types.goaway), peer.find(types.rst, 1)]).toEqual([
      open,
      ...found,
    ])
  for (const peer of proxies) peer.destroy()
  await patient.stop()
})

test('silence, half a preface, an open header block and a SETTINGS a second are not waited for longer than for a request', async () => {
  const quick = await startGateway({ headers: '1s' })
  const open = headers(1, request(), 0)
  await Promise.all(
    [
      { bare: true },
      { bare: true, first: Buffer.from('PRI * HTTP/2.0\r\n') },
      { first: open },
      { every: settings() },
    ].map(async ({ bare = false, first, every }) => {
      const peer = await openPeer(quick, { bare })
      if (first !== undefined) peer.send(first)
      await untilClosed(peer, (at) => (at % 100 === 0 ? every : undefined))
    }),
  )
})

/** On each connection 30 bodies, a byte a frame, their frames in turn. */
const inBytes = (key: string | undefined): [Buffer, Buffer] => {
  const fields = key === undefined ? POST.slice(0, -2) : request('/v1/pets', 'POST', key)
  const ids = Array.from({ length: 30 }, (_, at) => 2 * at + 1)
  const round = Buffer.concat(ids.map((on) => frame(types.data, 0, on, [120])))
  return [
    Buffer.concat(ids.map((on) => headers(on, fields, END_HEADERS))),
    Buffer.concat(Array<Buffer>(200).fill(round)),
  ]
}

test.each([
  ['a valid key', keys.free],
  ['no key', undefined],
])('bodies in frames of one byte end their connection: %s', async (_, key) => {
  const before = await counted('flood')
  const [peers, bystander] = await Promise.all([
    Promise.all(Array.from({ length: 10 }, () => openPeer())),
    openBystander(),
  ])
  const [heads, bodies] = inBytes(key)
  for (const peer of peers)
    await peer.waitFor(() => peer.find(types.settings) !== undefined, 'SETTINGS')
  for (const peer of peers) peer.send(heads, bodies)
  const answers = Array.from({ length: 20 }, () => bystander.request({ key: keys.business }))
  for (const { status } of await Promise.all(answers)) expect(status).toBe(200)
  for (const peer of peers) {
    await peer.waitFor(() => peer.closed, 'the end of the connection')
    // ENHANCE_YOUR_CALM
    expect(peer.find(types.goaway)?.payload.readUInt32BE(4)).toBe(11)
  }
  expect(await counted('flood')).toBe(before + peers.length)
})

/** The most that a count has grown by in one turn of the event loop, until `work` is done. */
async function mostInATurn(count: () => number, work: () => Promise<void>): Promise<number> {
  let most = 0
  let last = count()
  const look = (): void => {
    const now = count()
    most = Math.max(most, now - last)
    last = now
    ticker = setImmediate(look)
  }
  let ticker = setImmediate(look)
  await work()
  clearImmediate(ticker)
  return most
}

test('streams that come all at once begin a few a turn, and who is known does not wait for them', async () => {
  const [peers, bystander] = await Promise.all([
    Promise.all(Array.from({ length: 5 }, () => openPeer())),
    openBystander(),
  ])
  await bystander.request({ key: keys.business })
  // What is written in one turn is read in the next.
  const answered = () =>
    peers.reduce(
      (sum, peer) => sum + peer.frames.filter(({ type }) => type === types.headers).length,
      0,
    )
  const fields = request('/v1/pets').slice(0, -2)
  const most = await mostInATurn(answered, async () => {
    for (const peer of peers) peer.send(streams(0, 100, (on) => [headers(on, fields)]))
    expect((await bystander.request({ key: keys.business })).status).toBe(200)
    expect(answered()).toBeLessThan(250)
    await expect.poll(answered).toBe(500)
  })
  // As many in the poll as in the line that follows.
  expect(most).toBeLessThanOrEqual(128)
})

const faults: Record<string, (on: number) => Buffer[]> = {
  'a body longer than its length': (on) => [
    headers(on, [...forwarded(POST, evil), 'content-length', '3'], END_HEADERS),
    frame(types.data, END_STREAM, on, Buffer.from('longer')),
  ],
  'a body shorter than its length': (on) => [
    headers(on, [...forwarded(POST, evil), 'content-length', '9'], END_HEADERS),
    frame(types.data, END_STREAM, on, Buffer.from('short')),
  ],
  'a request that is malformed': (on) => [headers(on, [...forwarded(POST, evil), 'TE', 'x'])],
  'a request that is taken back': (on) => [
    headers(on, forwarded(request(), evil)),
    frame(types.rst, 0, on, uint32(8)),
  ],
  'a body in frames of one byte': (on) => [
    headers(on, forwarded(POST, evil), END_HEADERS),
    times(1_500, () => frame(types.data, 0, on, [120])),
  ],
}

test.each(Object.entries(faults))(
  'on the connection of a trusted proxy %s ends nothing beside it',
  async (name, fault) => {
    const peer = await openShared()
    // Frames that came in one packet with the first are handed over as one.
    await peer.waitFor(() => peer.find(types.settings) !== undefined, 'SETTINGS')
    const isDear = name.includes('one byte')
    const count = isDear ? 3 : 300
    const honest = Array.from({ length: 20 }, (_, at) => 2 * at + 1)
    const fields = forwarded(request('/v1/pets', 'GET', keys.business), '198.51.100.7')
    for (const on of honest.slice(0, 10)) peer.send(headers(on, fields))
    for (let at = 0; at < count; at++) {
      peer.send(...fault(1_001 + 2 * at))
      if (at % 20 === 19) await sleep(1)
    }
    for (const on of honest.slice(10)) peer.send(headers(on + 10_000, fields))
    const isServed = (on: number) => peer.find(types.data, on)?.payload.toString() === 'ok'
    const all = honest.map((on, at) => (at < 10 ? on : on + 10_000))
    await peer.waitFor(() => all.every(isServed) || peer.closed, 'answers for the others')
    expect([peer.closed, peer.find(types.goaway)]).toEqual([false, undefined])
  },
)

test('on the connection of a trusted proxy requests that are taken back at the backend, however many, end nothing beside them', async () => {
  const peer = await openShared()
  const atBackend = () => backend.requests.filter(({ target }) => target === SILENT).length
  for (let round = 0; round < 12; round++) {
    const ids = Array.from({ length: 50 }, (_, at) => id(round, 50, at))
    const before = atBackend()
    peer.send(...ids.map((on) => headers(on, forwarded(request(SILENT), evil))))
    await peer.waitFor(() => atBackend() === before + 50 || peer.closed, 'all at the backend')
    peer.send(...ids.map((on) => frame(types.rst, 0, on, uint32(8))))
  }
  // Connections are looked at four times a second.
  await sleep(600)
  const fields = request('/v1/pets', 'GET', keys.business)
  peer.send(headers(2_001, forwarded(fields, '198.51.100.7')))
  const served = () => peer.find(types.data, 2_001) !== undefined
  await peer.waitFor(() => served() || peer.closed, 'an answer for another')
  expect([peer.closed, peer.find(types.goaway)]).toEqual([false, undefined])
})

test('random frames end their own connection at most', async () => {
  // A linear congruential generator: what fails, fails again.
  let seed = 20_261_122
  const random = (below: number): number =>
    (seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31) % below
  for (let connection = 0; connection < 30; connection++) {
    const peer = await (connection % 2 === 0 ? openPeer() : openShared())
    for (let at = 0; at < 20; at++) {
      const stream = random(3) === 0 ? random(9) : 2 * at + 1
      const payload = Buffer.from(Array.from({ length: random(40) }, () => random(256)))
      const sound = [
        headers(
          2 * at + 1,
          request(
            random(2) === 0 ? '/v1/pets' : '/v1/pets/large',
            random(2) === 0 ? 'GET' : 'POST',
          ),
          random(8),
        ),
        frame(types.data, random(2), 2 * random(at + 1) + 1, payload),
        frame(types.rst, 0, 2 * random(at + 1) + 1, uint32(random(14))),
        frame(types.window, 0, 2 * random(at + 1), uint32(random(3) * 1000)),
        settings([4, random(3) * 30_000]),
        frame(types.goaway, 0, 0, Buffer.concat([uint32(0), uint32(random(3))])),
      ]
      peer.send(
        random(4) === 0
          ? frame(random(12), random(256), stream, payload)
          : (sound[random(sound.length)] ?? payload),
      )
      if (random(4) === 0) await sleep(random(4))
    }
    if (random(2) === 0) peer.socket.resetAndDestroy()
    else peer.destroy()
  }
  const bystander = await openBystander()
  expect((await bystander.request({ key: keys.business })).status).toBe(200)
  await expect.poll(() => gateway.metric('tollgate_requests_in_flight')).toBe(0)
  expect(gateway.logLines().filter(({ event }) => event === 'internalError')).toEqual([])
})
