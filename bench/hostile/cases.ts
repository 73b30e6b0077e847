/** What is played, and what must hold. */
import { percent } from '../markdown.ts'
import { requestHead as head } from '../wire.ts'
import { bigPath } from '../workload.ts'
import { clients, METERED_PER_MINUTE } from './clients.ts'
import { ALGORITHM, CLAIMS } from './issuer.ts'
import { partOf, type Play, type Sight } from './play.ts'
import { gateway, haproxy, nginx, PAGE, type Server } from './servers.ts'

export interface HostileCase {
  readonly name: string
  readonly title: string
  readonly wanted: string
  /** Default: the gateway with its usual engine, nginx and HAProxy. */
  readonly servers?: readonly Server[]
  readonly play: Play
  /** What the case is about, in words and numbers. */
  found(sight: Sight): string
  /** nginx: what was seen of it in this run, for what is measured against it. */
  isMet(sight: Sight, nginx: Sight | undefined): boolean
}

type Attack = NonNullable<Play['attack']>

const [direct, httpProxy] = [gateway('direct'), gateway('http-proxy-3')]
export const usualServers = [direct, nginx, haproxy]
const both = [direct, httpProxy, nginx, haproxy]
const { victim, greedy, greedy2, greedy3, greedy4, accomplice, metered } = clients
const GROWTH_MB = 64

const growthMB = ({ rssMostMB, rssBeforeMB }: Sight): number => rssMostMB - rssBeforeMB
const servedText = ({ served }: Sight): string => `${percent(served)} served`
const isServed = ({ served }: Sight): boolean => served === 1
const servedSoon = {
  wanted: 'all 200, p99 < 100 ms',
  found: servedText,
  isMet: ({ served, p99Ms }: Sight): boolean => served === 1 && p99Ms < 100,
}
const part502 = ({ answers }: Sight): number => partOf(answers, '502')
const post = (key: string, more: string): string => head('/v1/pets', { method: 'POST', key, more })

/** Requests of one client that cost a backend work before they are refused: no more of them than its minute has. */
const chargedWork = (
  name: string,
  title: string,
  play: Pick<Play, 'ms' | 'setup'>,
  attack: Partial<Attack>,
): HostileCase => ({
  name,
  title,
  wanted: `at most ${METERED_PER_MINUTE} heads`,
  play: {
    ...play,
    isEarlyInMinute: true,
    // The victim's own requests would be counted at the backend too.
    client: { head: head('/v1/pets', {}), everyMs: 1_000, connections: 1 },
    attack: { attack: 'brokenBodies', head: chunkedGet, connections: 30, times: 300, ...attack },
  },
  found: ({ heads }) => `${heads} heads of 300`,
  isMet: ({ heads }) => heads <= METERED_PER_MINUTE,
})
const chunkedGet = head('/v1/pets', { key: metered.key, more: 'Transfer-Encoding: chunked\r\n' })
const chunkedPost = chunkedGet.replace('GET', 'POST')

const shutOut = (name: string, title: string, attack: Attack): HostileCase => ({
  name,
  title,
  play: { ms: 6_000, attack },
  ...servedSoon,
})

/** What a neighbour behind the same address feels, who comes on a new connection each time. */
const neighbour = (
  name: string,
  title: string,
  attack: Attack,
  play: Pick<Play, 'setup' | 'client'> = {},
): HostileCase => ({
  name: `neighbours-${name}`,
  title: `behind one address: ${title}`,
  wanted: 'at least 99 % served, longest < 1 s',
  play: {
    ms: 6_000,
    ...play,
    client: { fresh: true, everyMs: 30, ...play.client },
    attack: { ...attack, isNeighbour: true },
  },
  found: servedText,
  isMet: ({ served, longestMs }) => served >= 0.99 && longestMs < 1_000,
})

/** An HTTP/2 preface, empty SETTINGS, and DATA on stream 0, which is forbidden (RFC 9113 6.1). */
const brokenFrames = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\x01'
const preflight = `OPTIONS /v1/pets HTTP/1.1\r\nHost: bench.example\r\nOrigin: ${PAGE}\r\nAccess-Control-Request-Method: GET\r\n\r\n`

/** Before and after a backend fails, under load; the rate after is measured from the failure on. */
const failing = (
  how: 'frozen' | 'dead',
  wanted: string,
  isMet: (failed: number, rate: number) => boolean,
): HostileCase => ({
  name: `10-${how}`,
  title: `GET, one of three backends ${how}, 32 connections`,
  wanted,
  play: {
    ms: 8_000,
    setup: { responseMs: 1_000 },
    backends: 3,
    client: { connections: 32, everyMs: undefined },
    failure: { signal: how === 'frozen' ? 'SIGSTOP' : 'SIGKILL', beforeMs: 3_000 },
  },
  found: ({ served, rate }) => `${percent(1 - served)} failed, rate ${percent(rate)}`,
  isMet: ({ served, rate }) => isMet(1 - served, rate),
})

const closing = (connections: number): HostileCase => ({
  name: `11-${connections}`,
  title: `POST, the backend closes after each answer, ${connections} connection${connections > 1 ? 's' : ''}`,
  wanted: 'share of 502 below nginx',
  servers: both,
  play: {
    ms: 4_000,
    backendArgs: ['--closes'],
    client: {
      head: `${post(victim.key, 'Content-Length: 2\r\n')}hi`,
      connections,
      everyMs: undefined,
    },
  },
  found: (sight) => `${percent(part502(sight))} 502`,
  isMet: (sight, peer) => part502(sight) < (peer ? part502(peer) : Infinity),
})

/** A client with a key on a connection of its own, beside many that send all at once. */
const overHttp2 = (name: string, title: string, attack: Attack): HostileCase => ({
  name,
  title,
  wanted: 'all 200, longest at most as with nginx',
  play: {
    ms: 8_000,
    setup: { isSecure: true },
    client: { everyMs: 10, http2Key: victim.key, connections: 1_000 },
    attack,
  },
  found: (sight) => `${servedText(sight)}, longest ${sight.longestMs.toFixed(0)} ms`,
  isMet: (sight, peer) => isServed(sight) && sight.longestMs <= (peer?.longestMs ?? Infinity),
})

const frames = (connections: number, key?: string): HostileCase =>
  overHttp2(
    `frames-${connections}${key === undefined ? '' : '-key'}`,
    `${connections} connections, 30 POSTs each in DATA frames of one byte, ${key === undefined ? 'no' : 'a valid'} key`,
    { attack: 'tinyFrames', head: '', connections, key },
  )

/** Made-up tokens of one address, beside a client of another each of whose tokens is fresh. kid: undefined: each names a key of its own. */
const tokens = (name: string, title: string, connections: number, kid?: string): HostileCase => ({
  name: `tokens-${name}`,
  title: `${TOKENS_PER_SECOND} forged ${ALGORITHM} tokens a second ${title}, a fresh token each 20 ms of another address`,
  // nginx as it comes checks no tokens; HAProxy does so in the thread that serves.
  servers: [direct],
  play: {
    ms: 6_000,
    client: { everyMs: 20 },
    hasTokens: true,
    attack: {
      attack: 'forgedTokens',
      head: head('/v1/pets', { key: 'TOKEN' }),
      connections,
      times: TOKENS_PER_SECOND,
      forged: { claims: CLAIMS, kid },
    },
  },
  ...servedSoon,
})
const TOKENS_PER_SECOND = 1_200

/** Two keys on a path that no backend answers well, beside a client on a healthy one: is a backend taken from it? */
const failingPath = (how: 'closes' | '502', backends: number): HostileCase => ({
  name: `path-${how}-${backends}`,
  title: `two keys on a path that ${how === 'closes' ? 'closes' : 'answers 502'}, ${backends} backends`,
  play: {
    ms: 5_000,
    backends,
    client: { connections: 8, everyMs: 10 },
    attack: {
      attack: 'brokenBodies',
      head: [greedy, accomplice].map(({ key }) => head(`/v1/${how}`, { key })).join(''),
      connections: 6,
      times: 1_000_000,
    },
  },
  ...servedSoon,
})

const silent = (connections: number): Attack => ({ attack: 'hold', head: '', connections })
const guesses: Attack = { attack: 'pipelines', head: head('/v1/pets', {}), connections: 8 }

export const cases: readonly HostileCase[] = [
  {
    name: '1',
    title: 'one anonymous connection, `GET /%2e` without end',
    wanted: 'longest < 250 ms, growth < 64 MB',
    play: {
      ms: 4_000,
      attack: {
        attack: 'pipelines',
        head: 'GET /%2e HTTP/1.1\r\nHost:x\r\n\r\n',
        connections: 1,
        deaf: true,
      },
    },
    found: (sight) => `${sight.longestMs.toFixed(0)} ms, +${growthMB(sight).toFixed(0)} MB`,
    isMet: (sight) => sight.longestMs < 250 && growthMB(sight) < GROWTH_MB && isServed(sight),
  },
  chargedWork(
    '2',
    '300 GET, one good chunk and a broken one',
    { ms: 8_000 },
    { rest: { text: '2\r\nhi\r\nZZZ\r\n', afterMs: 40, repeat: 1 } },
  ),
  chargedWork(
    '2-413',
    '300 POST in chunks, too large',
    { ms: 8_000, setup: { bodyBytes: 131_072 } },
    {
      head: chunkedPost,
      rest: { text: `4000\r\n${'x'.repeat(0x4000)}\r\n`, afterMs: 10, repeat: 12 },
    },
  ),
  chargedWork(
    '2-408',
    '300 POST that never end',
    { ms: 12_000, setup: { requestMs: 1_000 } },
    { head: `${chunkedPost}2\r\nhi\r\n`, connections: 50 },
  ),
  shutOut('3-uploads', '128 uploads of one key, 1 of 1,000 bytes sent', {
    attack: 'hold',
    head: `${post(greedy.key, 'Content-Length: 1000\r\n')}x`,
    connections: 128,
  }),
  shutOut('3-readers', '128 readers of one key, who never read 10 MiB', {
    attack: 'hold',
    head: head(bigPath, { key: greedy.key }),
    connections: 128,
    deaf: true,
  }),
  {
    name: '4',
    title: '8 anonymous connections of pipelined 401',
    wanted: 'median < 20 ms, below nginx',
    play: { ms: 5_000, attack: guesses },
    found: ({ medianMs }) => `median ${medianMs.toFixed(1)} ms`,
    isMet: (sight, peer) =>
      isServed(sight) && sight.medianMs < Math.min(20, peer?.medianMs ?? Infinity),
  },
  {
    name: '7',
    title: '100,000 anonymous addresses',
    wanted: 'growth < 64 MB',
    play: {
      ms: 20_000,
      setup: { isBehindProxy: true },
      // A peer behind a trusted proxy has an address there.
      client: {
        head: head('/v1/pets', { key: victim.key, more: 'X-Forwarded-For: 192.0.2.1\r\n' }),
      },
      attack: {
        attack: 'addresses',
        head: head('/v1/pets', {}).slice(0, -2),
        connections: 8,
        times: 100_000,
      },
    },
    found: (sight) => `+${growthMB(sight).toFixed(0)} MB`,
    isMet: (sight) => growthMB(sight) < GROWTH_MB && sight.attack['addresses'] === 100_000,
  },
  failing(
    'frozen',
    'at most 1 % failed, rate at least 60 %',
    (failed, rate) => failed <= 0.01 && rate >= 0.6,
  ),
  failing('dead', '0 failed', (failed) => failed === 0),
  closing(1),
  closing(8),
  neighbour(
    'frames',
    '4 connections of broken HTTP/2 frames',
    { attack: 'hold', head: brokenFrames, connections: 4, everyMs: 0, alpn: ['h2'] },
    { setup: { isSecure: true }, client: { isSecure: true } },
  ),
  neighbour('idle', '500 silent connections', silent(500)),
  neighbour('storm', '1,500 silent connections, which come again at once', silent(1_500)),
  neighbour('guesses', '8 connections of pipelined 401', guesses),
  neighbour(
    'preflights',
    '140 preflights a second',
    { attack: 'paced', head: preflight, connections: 1, everyMs: 1_000 / 140 },
    { setup: { hasCors: true }, client: { head: preflight } },
  ),
  frames(60),
  frames(60, greedy.key),
  frames(200),
  frames(200, greedy.key),
  overHttp2('streams', '480 connections that begin 100 streams each at once, no key', {
    attack: 'streamsAtOnce',
    head: '',
    connections: 480,
  }),
  {
    name: 'descriptors',
    title: '400 silent connections, `ulimit -n 300`',
    wanted: 'all 200',
    play: {
      ms: 5_000,
      setup: { openFiles: 300 },
      client: { fresh: true, everyMs: 20 },
      attack: silent(400),
    },
    found: servedText,
    isMet: isServed,
  },
  tokens('forged', 'that name the right key', 40, 'first'),
  // A token that names an unknown key may be kept waiting, so it takes more connections.
  tokens('invented', 'that name invented ones', 400),
  failingPath('closes', 1),
  failingPath('closes', 2),
  failingPath('502', 2),
  {
    name: 'greedy',
    title: 'four keys with 32 requests each that take 25 s',
    wanted: 'a fifth key is served, all within 5 s',
    servers: both,
    play: {
      ms: 3_000,
      client: { everyMs: 50, patienceMs: 2_000 },
      attack: {
        ...silent(128),
        heads: [greedy, greedy2, greedy3, greedy4].map(({ key }) => head('/v1/very-slow', { key })),
      },
    },
    found: servedText,
    isMet: isServed,
  },
]
