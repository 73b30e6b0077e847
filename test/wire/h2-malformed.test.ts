/** What RFC 9113 calls malformed never comes to the pipeline; what the gateway itself forbids is refused as over HTTP/1.1. */
import { expect, test } from 'vitest'
import { keys, startTestGateway } from '../support/gateway.ts'
import { END_HEADERS, END_STREAM, frame, headers, openH2Peer } from '../support/h2-frames.ts'
import { PADDED } from '../support/h2-frames.ts'
import { settings, types, uint32, type H2Peer } from '../support/h2-frames.ts'
import { startRawBackend } from '../support/raw-backend.ts'
import { SMALL_LIMITS, serverBlock } from './wire.ts'

const backend = await startRawBackend()
const server = serverBlock(
  `http2: clear\n  proxyProtocol: true\n  trustedProxies: [127.0.0.1]\n  ${SMALL_LIMITS}`,
)
const gateway = await startTestGateway({ upstreams: [backend.url], blocks: { server } })

const METHOD = [':method', 'GET']
const PATH = [':path', '/v1/pets']
const SCHEME = [':scheme', 'http']
const AUTHORITY = [':authority', 'api.example']
const KEY = ['authorization', `Bearer ${keys.business}`]
const PSEUDO = [...METHOD, ...PATH, ...SCHEME, ...AUTHORITY]
const GOOD = [...PSEUDO, ...KEY]
const POST = [':method', 'POST', ...PATH, ...SCHEME, ...AUTHORITY, ...KEY]
const to = (path: string) => [...METHOD, ':path', path, ...SCHEME, ...AUTHORITY, ...KEY]
const by = (method: string) => [':method', method, ...PATH, ...SCHEME, ...AUTHORITY, ...KEY]
const at = (authority: string) => [...METHOD, ...PATH, ...SCHEME, ':authority', authority, ...KEY]
const many = (count: number, field: readonly string[]) =>
  Array.from({ length: count }, () => field).flat()

/** A field behind the good ones, and what becomes of the request: a reset, or this status. */
type Outcome = 'reset' | 'goaway' | number
const lists: Record<string, [readonly string[], Outcome]> = {
  'a good request': [GOOD, 200],
  'no :method': [[...PATH, ...SCHEME, ...AUTHORITY, ...KEY], 'reset'],
  'no :path': [[...METHOD, ...SCHEME, ...AUTHORITY, ...KEY], 'reset'],
  'no :scheme': [[...METHOD, ...PATH, ...AUTHORITY, ...KEY], 'reset'],
  'neither :authority nor Host': [[...METHOD, ...PATH, ...SCHEME, ...KEY], 'reset'],
  'Host alone': [[...METHOD, ...PATH, ...SCHEME, ...KEY, 'host', 'api.example'], 200],
  'Host as :authority': [[...GOOD, 'host', 'api.example'], 200],
  'another Host': [[...GOOD, 'host', 'other.example'], 400],
  'two Hosts': [[...GOOD, 'host', 'api.example', 'host', 'api.example'], 'reset'],
  'two :path': [[...PATH, ...GOOD], 'reset'],
  'two :authority': [[...AUTHORITY, ...GOOD], 'reset'],
  'an empty :method': [by(''), 'reset'],
  'an empty :path': [to(''), 'reset'],
  'an empty :authority': [at(''), 'reset'],
  'a late :path': [[...METHOD, ...SCHEME, ...AUTHORITY, ...KEY, ...PATH], 'reset'],
  'an unknown pseudo-field': [[':foo', 'bar', ...GOOD], 'reset'],
  ':status': [[':status', '200', ...GOOD], 'reset'],
  ':protocol': [[...by('CONNECT'), ':protocol', 'websocket'], 'reset'],
  'CONNECT with :path': [by('CONNECT'), 'reset'],
  CONNECT: [[':method', 'CONNECT', ':authority', 'api.example:443', ...KEY], 501],
  TRACE: [by('TRACE'), 501],
  'a method in lower case': [by('get'), 501],
  'a method with a space': [by('GE T'), 'reset'],
  'a name in upper case': [[...GOOD, 'X-Upper', '1'], 'reset'],
  'a path in absolute form': [to('http://api.example/v1/pets'), 'reset'],
  'a relative path': [to('v1/pets'), 'reset'],
  'a path with a space': [to('/v1/pe ts'), 'reset'],
  'a path with CRLF': [to('/v1/pets\r\nx: y'), 'reset'],
  '* with GET': [to('*'), 'reset'],
  'a fragment in the path': [to('/v1/pets#x'), 400],
  'dots in the path': [to('/v1/../admin'), 400],
  'an encoded slash': [to('/v1/pets%2f1'), 400],
  'a byte above ASCII in the path': [to('/v1/p\xe9ts'), 400],
  'a target that is too long': [to(`/v1/pets?${'x'.repeat(600)}`), 414],
  'userinfo in :authority': [at('user@api.example'), 'reset'],
  'a space in :authority': [at('api example'), 'reset'],
  'a percent sign in :authority': [at('api%2eexample'), 400],
  'https on a clear connection': [
    [...METHOD, ...PATH, ':scheme', 'https', ...AUTHORITY, ...KEY],
    400,
  ],
  'https, says the trusted proxy': [
    [...METHOD, ...PATH, ':scheme', 'https', ...AUTHORITY, ...KEY, 'x-forwarded-proto', 'https'],
    200,
  ],
  ftp: [[...METHOD, ...PATH, ':scheme', 'ftp', ...AUTHORITY, ...KEY], 400],
  connection: [[...GOOD, 'connection', 'close'], 'reset'],
  'transfer-encoding': [[...GOOD, 'transfer-encoding', 'chunked'], 'reset'],
  upgrade: [[...GOOD, 'upgrade', 'websocket'], 'reset'],
  'te: gzip': [[...GOOD, 'te', 'gzip'], 'reset'],
  'te: trailers': [[...GOOD, 'te', 'trailers'], 200],
  'a look-alike of Content-Length': [[...GOOD, 'content_length', '5'], 400],
  'a look-alike of Transfer-Encoding': [[...GOOD, 'transfer_encoding', 'chunked'], 400],
  'two Content-Length': [[...POST, 'content-length', '0', 'content-length', '0'], 'reset'],
  'a signed Content-Length': [[...POST, 'content-length', '+0'], 'reset'],
  'a huge Content-Length': [[...POST, 'content-length', '9'.repeat(25)], 'reset'],
  'a Content-Length without a body': [[...POST, 'content-length', '5'], 'reset'],
  'two Authorization': [[...PSEUDO, ...KEY, ...KEY], 401],
  'no key': [PSEUDO, 401],
  'an unknown path': [to('/nowhere'), 404],
  'too many fields': [[...GOOD, ...many(25, ['x-a', '1'])], 431],
  'twice as many fields again': [[...GOOD, ...many(60, ['x-a', '1'])], 'reset'],
  'too large fields': [[...GOOD, 'x-a', 'a'.repeat(3000)], 431],
  'CR in a value': [[...GOOD, 'x-a', 'a\rb'], 200],
  'LF in a value': [[...GOOD, 'x-a', 'a\nx-client-id: other'], 200],
  'NUL in a value': [[...GOOD, 'x-a', 'a\0b'], 200],
  'a space before a value': [[...GOOD, 'x-a', ' a'], 200],
  'an empty name': [[...GOOD, '', 'a'], 200],
}

const raw: Record<string, [readonly Buffer[], Outcome]> = {
  'DATA below Content-Length': [
    [
      headers(1, [...POST, 'content-length', '9'], END_HEADERS),
      frame(types.data, END_STREAM, 1, Buffer.from('xyz')),
    ],
    'reset',
  ],
  'DATA beyond Content-Length': [
    [
      headers(1, [...POST, 'content-length', '1'], END_HEADERS),
      frame(types.data, END_STREAM, 1, Buffer.from('xyz')),
    ],
    'goaway',
  ],
  'trailers with a pseudo-field': [
    [headers(1, POST, END_HEADERS), headers(1, [':path', '/'])],
    'reset',
  ],
  'DATA on an idle stream': [[frame(types.data, 0, 1, Buffer.from('x'))], 'goaway'],
  'HEADERS on stream 0': [[headers(0, GOOD)], 'goaway'],
  'padding longer than the frame': [
    [frame(types.headers, END_STREAM | END_HEADERS | PADDED, 1, [200, 0])],
    'goaway',
  ],
  'fields that are no HPACK': [
    [frame(types.headers, 5, 1, [0xff, 0xff, 0xff, 0xff, 0xff])],
    'goaway',
  ],
  'CONTINUATION without HEADERS': [[frame(types.continuation, END_HEADERS, 1, [0])], 'goaway'],
  'HEADERS within HEADERS': [[headers(1, GOOD, END_STREAM), headers(3, GOOD)], 'goaway'],
  'a frame that is too large': [[frame(types.data, 0, 1, Buffer.alloc(16_385))], 'goaway'],
  'PING of another length': [[frame(types.ping, 0, 0, [1])], 'goaway'],
  'SETTINGS: push 2': [[settings([2, 2])], 'goaway'],
  'SETTINGS: a window beyond the limit': [[settings([4, 2 ** 31])], 'goaway'],
  'WINDOW_UPDATE of 0': [[frame(types.window, 0, 0, uint32(0))], 'goaway'],
  'WINDOW_UPDATE beyond the limit': [[frame(types.window, 0, 0, uint32(2 ** 31 - 1))], 'goaway'],
  'RST_STREAM on stream 0': [[frame(types.rst, 0, 0, uint32(8))], 'goaway'],
  'PRIORITY of another length': [[frame(types.priority, 0, 1, [1])], 'goaway'],
  'PUSH_PROMISE of a client': [[frame(types.push, END_HEADERS, 1, uint32(2))], 'goaway'],
}

async function outcomeOf(peer: H2Peer): Promise<Outcome> {
  const reset = () => peer.find(types.rst, 1)
  const goaway = () => peer.closed || peer.find(types.goaway) !== undefined
  const answered = () =>
    peer.frames.some(
      ({ type, flags, stream }) => stream === 1 && type < 2 && (flags & END_STREAM) !== 0,
    )
  await peer.waitFor(() => answered() || reset() !== undefined || goaway(), 'an outcome')
  if (answered()) {
    const body = Buffer.concat(
      peer.frames.filter(({ type }) => type === types.data).map(({ payload }) => payload),
    )
    return Number(/"status":(\d+)/.exec(body.toString())?.[1] ?? 200)
  }
  return reset() === undefined ? 'goaway' : 'reset'
}

const cases = [
  ...Object.entries(lists).map(([name, [list, outcome]]) => ({
    name,
    bytes: [headers(1, list)],
    outcome,
  })),
  ...Object.entries(raw).map(([name, [bytes, outcome]]) => ({ name, bytes, outcome })),
]

test.each(
  cases.map((one, nth) => ({
    ...one,
    from: one.name.includes('trusted proxy') ? '127.0.0.1' : `192.0.2.${nth}`,
  })),
)('$name: $outcome', async ({ bytes, outcome, from }) => {
  const peer = await openH2Peer(gateway.port, { from })
  peer.send(...bytes)
  expect(await outcomeOf(peer)).toBe(outcome)
  peer.destroy()
})

test('nothing of what is malformed came to the pipeline, nor to the backend', async () => {
  const statuses = cases.flatMap(({ outcome }) => (typeof outcome === 'number' ? [outcome] : []))
  const lines = () => gateway.logLines().filter(({ event }) => event === 'access')
  const broken = lines().filter(({ status }) => status === 499)
  expect(lines().length - broken.length).toBe(statuses.length)
  // Those with a sound head: what came behind it broke them off.
  expect(broken.length).toBeLessThanOrEqual(4)
  expect(backend.problems()).toEqual([])
  expect(backend.requests).toHaveLength(statuses.filter((status) => status === 200).length)
  for (const request of backend.requests)
    expect(request.all('x-client-id')).toEqual(['business-client'])
  expect(await gateway.metric('tollgate_http2_abuse_total{kind="frames"}')).toBeGreaterThan(10)
})
