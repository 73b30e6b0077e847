/** What is played, and what must hold. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Processes } from '../processes.ts'
import { failingPath } from './failing-path.ts'
import { begin, head, see, type Battle, type Play, type Sight } from './play.ts'
import { PAGE } from './peers.ts'
import { gateway, haproxy, nginx, type Server } from './servers.ts'
import { clients, METERED_PER_MINUTE } from './setup.ts'
import { tokenCases } from './token-cases.ts'

export interface Line {
  readonly server: Server
  readonly sight: Sight
  /** What the case is about, in words and numbers. */
  readonly found: string
  readonly value: number
}

export interface HostileCase {
  readonly name: string
  readonly title: string
  readonly wanted: string
  readonly servers: readonly Server[]
  run(processes: Processes, server: Server): Promise<Omit<Line, 'server'>>
  /** all: the lines of the case in this run, for what is measured against a peer. */
  isMet(line: Line, all: readonly Line[]): boolean
}

const [direct, httpProxy] = [gateway('direct'), gateway('http-proxy-3')]
const all = [direct, nginx, haproxy]
const { victim, greedy, greedy2, greedy3, greedy4, metered } = clients
const GROWTH_MB = 64

const growthMB = ({ rssMostMB, rssBeforeMB }: Sight): number => rssMostMB - rssBeforeMB
const share = ({ answers }: Sight, status: string): number => {
  const count = Object.values(answers).reduce((sum, one) => sum + one, 0)
  return (answers[status] ?? 0) / Math.max(count, 1)
}
const percent = (value: number): string => `${(100 * value).toFixed(1)} %`
const onlyServed = (sight: Sight): boolean => share(sight, '200') === 1

/** One play, one line. */
const once =
  (play: Play, found: (sight: Sight) => [string, number]): HostileCase['run'] =>
  async (processes, server) => {
    const sight = await see(await begin(processes, server, play), play)
    const [text, value] = found(sight)
    return { sight, found: text, value }
  }

const peersValue = (lines: readonly Line[], kind: Server['kind']): number =>
  lines.find(({ server }) => server.kind === kind)?.value ?? Infinity

const refusedAtOnce: Play = {
  ms: 4_000,
  attack: {
    attack: 'pipelines',
    head: 'GET /%2e HTTP/1.1\r\nHost:x\r\n\r\n',
    connections: 1,
    deaf: true,
  },
}

const chunkedGet = head('/v1/pets', { key: metered.key, more: 'Transfer-Encoding: chunked\r\n' })
const chunkedPost = chunkedGet.replace('GET', 'POST')
const bodies = (play: Pick<Play, 'setup' | 'ms'>, attack: Partial<Play['attack']>): Play => ({
  ...play,
  // The victim's own requests would be counted at the backend too.
  client: { head: head('/v1/pets'), everyMs: 1_000, connections: 1 },
  attack: { attack: 'brokenBodies', head: chunkedGet, connections: 30, times: 300, ...attack },
})
const heads = (sight: Sight): [string, number] => [`${sight.heads} heads of 300`, sight.heads]
const chargedWork = (
  name: string,
  title: string,
  play: Play,
): Omit<HostileCase, 'servers' | 'run'> & Pick<HostileCase, 'servers' | 'run'> => ({
  name,
  title,
  wanted: `at most ${METERED_PER_MINUTE} heads`,
  servers: all,
  run: async (processes, server) => {
    // The charge is by the minute of the clock.
    while (new Date().getUTCSeconds() > 45) await sleep(500)
    return once(play, heads)(processes, server)
  },
  isMet: ({ value }) => value <= METERED_PER_MINUTE,
})

const shutOut = (name: string, title: string, attack: Play['attack']): HostileCase => ({
  name,
  title,
  wanted: 'all 200, p99 < 100 ms',
  servers: all,
  run: once({ ms: 6_000, ...(attack && { attack }) }, (sight) => [
    `${percent(share(sight, '200'))} served`,
    sight.p99Ms,
  ]),
  isMet: ({ sight }) => onlyServed(sight) && sight.p99Ms < 100,
})

/** What a neighbour behind the same address feels, who comes on a new connection each time. */
const neighbour = (
  name: string,
  title: string,
  play: Pick<Play, 'setup' | 'client'> & { readonly attack: NonNullable<Play['attack']> },
): HostileCase => ({
  name: `neighbours-${name}`,
  title,
  wanted: 'at least 99 % served, longest < 1 s',
  servers: all,
  run: once(
    {
      ms: 6_000,
      ...play,
      client: { fresh: true, everyMs: 30, ...play.client },
      attack: { ...play.attack, isNeighbour: true },
    },
    (sight) => {
      const served = share(sight, '200') + share(sight, '204')
      return [`${percent(served)} served`, served]
    },
  ),
  isMet: ({ value, sight }) => value >= 0.99 && sight.longestMs < 1_000,
})

/** An HTTP/2 preface, empty SETTINGS, and DATA on stream 0, which is forbidden (RFC 9113 6.1). */
const brokenFrames = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\x01'
const preflight = `OPTIONS /v1/pets HTTP/1.1\r\nHost: bench.example\r\nOrigin: ${PAGE}\r\nAccess-Control-Request-Method: GET\r\n\r\n`

/** Before and after a backend fails, under load; the rate after is measured from the failure on. */
const failing = (
  name: string,
  title: string,
  signal: NodeJS.Signals,
  wanted: Pick<HostileCase, 'wanted' | 'isMet'>,
): HostileCase => ({
  name,
  title,
  ...wanted,
  servers: all,
  run: async (processes, server) => {
    const client = { connections: 32, everyMs: undefined }
    const play = { setup: { responseMs: 1_000 }, backends: 3, client }
    const battle = await begin(processes, server, { ...play, ms: 3_000 })
    const before = await see(battle, { ...play, ms: 3_000 })
    const kill = ({ backends }: Battle): void => void process.kill(backends[1]?.pid ?? NaN, signal)
    const sight = await see(battle, { ...play, ms: 8_000, meanwhile: kill })
    const rate = (sight.answers['200'] ?? 0) / 8 / ((before.answers['200'] ?? 0) / 3)
    const failed = 1 - share(sight, '200')
    return { sight, found: `${percent(failed)} failed, rate ${percent(rate)}`, value: failed }
  },
})

const closing = (connections: number): HostileCase => ({
  name: `11-${connections}`,
  title: `POST, the backend closes after each answer, ${connections} connection${connections > 1 ? 's' : ''}`,
  wanted: 'share of 502 below nginx',
  servers: [direct, httpProxy, nginx, haproxy],
  run: once(
    {
      ms: 4_000,
      backendArgs: ['--closes'],
      client: {
        head: head('/v1/pets', { method: 'POST', key: victim.key, more: 'Content-Length: 2\r\n' }),
        bodyBytes: 2,
        connections,
        everyMs: undefined,
      },
    },
    (sight) => [`${percent(share(sight, '502'))} 502`, share(sight, '502')],
  ),
  isMet: ({ value }, lines) => value < peersValue(lines, 'nginx'),
})

/** A client with a key on a connection of its own, beside many that send all at once. */
const overHttp2 = (name: string, title: string, attack: Play['attack']): HostileCase => ({
  name,
  title,
  wanted: 'all 200, longest at most as with nginx',
  servers: all,
  run: once(
    {
      ms: 8_000,
      setup: { isSecure: true },
      client: { everyMs: 10, http2: { path: '/v1/pets', key: victim.key } },
      ...(attack && { attack }),
    },
    (sight) => [
      `${percent(share(sight, '200'))} served, longest ${sight.longestMs.toFixed(0)} ms`,
      sight.longestMs,
    ],
  ),
  isMet: ({ value, sight }, lines) => onlyServed(sight) && value <= peersValue(lines, 'nginx'),
})

const frames = (connections: number, key?: string): HostileCase =>
  overHttp2(
    `frames-${connections}${key === undefined ? '' : '-key'}`,
    `${connections} connections, 30 POSTs each in DATA frames of one byte, ${key === undefined ? 'no' : 'a valid'} key`,
    { attack: 'tinyFrames', head: '', connections, request: { key } },
  )

export const cases: readonly HostileCase[] = [
  {
    name: '1',
    title: 'one anonymous connection, `GET /%2e` without end',
    wanted: 'longest < 250 ms, growth < 64 MB',
    servers: all,
    run: once(refusedAtOnce, (sight) => [
      `${sight.longestMs.toFixed(0)} ms, +${growthMB(sight).toFixed(0)} MB`,
      sight.longestMs,
    ]),
    isMet: ({ sight }) => sight.longestMs < 250 && growthMB(sight) < GROWTH_MB && onlyServed(sight),
  },
  chargedWork(
    '2',
    '300 GET, one good chunk and a broken one',
    bodies({ ms: 8_000 }, { rest: { text: '2\r\nhi\r\nZZZ\r\n', afterMs: 40, repeat: 1 } }),
  ),
  chargedWork(
    '2-413',
    '300 POST in chunks, too large',
    bodies(
      { ms: 8_000, setup: { bodyBytes: 131_072 } },
      {
        head: chunkedPost,
        rest: { text: `4000\r\n${'x'.repeat(0x4000)}\r\n`, afterMs: 10, repeat: 12 },
      },
    ),
  ),
  chargedWork(
    '2-408',
    '300 POST that never end',
    bodies(
      { ms: 12_000, setup: { requestMs: 1_000 } },
      { head: `${chunkedPost}2\r\nhi\r\n`, connections: 50 },
    ),
  ),
  shutOut('3-uploads', '128 uploads of one key, 1 of 1,000 bytes sent', {
    attack: 'hold',
    head: `${head('/v1/pets', { method: 'POST', key: greedy.key, more: 'Content-Length: 1000\r\n' })}x`,
    connections: 128,
  }),
  shutOut('3-readers', '128 readers of one key, who never read 6 MB', {
    attack: 'hold',
    head: head('/v1/big', { key: greedy.key }),
    connections: 128,
    deaf: true,
  }),
  {
    name: '4',
    title: '8 anonymous connections of pipelined 401',
    wanted: 'median < 20 ms, below nginx',
    servers: all,
    run: once(
      {
        ms: 5_000,
        attack: { attack: 'pipelines', head: head('/v1/pets'), connections: 8 },
      },
      (sight) => [`median ${sight.medianMs.toFixed(1)} ms`, sight.medianMs],
    ),
    isMet: ({ value, sight }, lines) =>
      value < 20 && value < peersValue(lines, 'nginx') && onlyServed(sight),
  },
  {
    name: '7',
    title: '100,000 anonymous addresses',
    wanted: 'growth < 64 MB',
    servers: all,
    run: once(
      {
        ms: 20_000,
        setup: { isBehindProxy: true },
        // A peer behind a trusted proxy has an address there.
        client: {
          head: head('/v1/pets', { key: victim.key, more: 'X-Forwarded-For: 192.0.2.1\r\n' }),
        },
        attack: {
          attack: 'addresses',
          head: head('/v1/pets').slice(0, -2),
          connections: 8,
          times: 100_000,
        },
      },
      (sight) => [`+${growthMB(sight).toFixed(0)} MB`, growthMB(sight)],
    ),
    isMet: ({ value, sight }) => value < GROWTH_MB && sight.attack['addresses'] === 100_000,
  },
  {
    name: '8',
    title: '720 runs of GET, then POST with `Expect: 100-continue`',
    wanted: '0 broken',
    servers: [direct, httpProxy, nginx, haproxy],
    run: once(
      {
        ms: 10_000,
        client: { everyMs: 100 },
        attack: {
          attack: 'continueRace',
          head: `${head('/v1/slow', { key: greedy.key })}${head('/v1/pets', { method: 'POST', key: greedy.key, more: 'Content-Length: 2\r\nExpect: 100-continue\r\n' })}hi`,
          connections: 4,
          times: 720,
        },
      },
      ({ attack }) => [`${attack['broken']} broken`, attack['broken'] ?? NaN],
    ),
    isMet: ({ value, sight }) => value === 0 && sight.attack['runs'] === 720,
  },
  failing('10-frozen', 'GET, one of three backends frozen, 32 connections', 'SIGSTOP', {
    wanted: 'at most 1 % failed, rate at least 60 %',
    isMet: ({ value, found }) =>
      value <= 0.01 && Number(/rate ([\d.]+)/.exec(found)?.[1] ?? NaN) >= 60,
  }),
  failing('10-dead', 'GET, one of three backends dead, 32 connections', 'SIGKILL', {
    wanted: '0 failed',
    isMet: ({ value }) => value === 0,
  }),
  closing(1),
  closing(8),
  neighbour('frames', 'behind one address: 4 connections of broken HTTP/2 frames', {
    setup: { isSecure: true },
    client: { tls: true },
    attack: { attack: 'reconnects', head: brokenFrames, connections: 4, alpn: ['h2'] },
  }),
  neighbour('idle', 'behind one address: 500 silent connections', {
    attack: { attack: 'hold', head: '', connections: 500 },
  }),
  neighbour('storm', 'behind one address: 1,500 silent connections, which come again at once', {
    attack: { attack: 'hold', head: '', connections: 1_500 },
  }),
  neighbour('guesses', 'behind one address: 8 connections of pipelined 401', {
    attack: { attack: 'pipelines', head: head('/v1/pets'), connections: 8 },
  }),
  neighbour('preflights', 'behind one address: 140 preflights a second', {
    setup: { hasCors: true },
    client: { head: preflight },
    attack: { attack: 'paced', head: preflight, connections: 1, everyMs: 1_000 / 140 },
  }),
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
    servers: all,
    run: once(
      {
        ms: 5_000,
        setup: { openFiles: 300 },
        client: { fresh: true, everyMs: 20 },
        attack: { attack: 'hold', head: '', connections: 400 },
      },
      (sight) => [`${percent(share(sight, '200'))} served`, share(sight, '200')],
    ),
    isMet: ({ sight }) => onlyServed(sight),
  },
  ...tokenCases,
  failingPath('closes', '/v1/closes', 1),
  failingPath('closes', '/v1/closes', 2),
  failingPath('502', '/v1/502', 2),
  {
    name: 'greedy',
    title: 'four keys with 32 requests each that take 25 s',
    wanted: 'a fifth key is served, all within 5 s',
    servers: [direct, httpProxy, nginx, haproxy],
    run: once(
      {
        ms: 3_000,
        client: { everyMs: 50, patienceMs: 2_000 },
        attack: {
          attack: 'hold',
          head: '',
          heads: [greedy, greedy2, greedy3, greedy4].map(({ key }) =>
            head('/v1/very-slow', { key }),
          ),
          connections: 128,
        },
      },
      (sight) => [`${percent(share(sight, '200'))} served`, share(sight, '200')],
    ),
    isMet: ({ sight }) => onlyServed(sight),
  },
  {
    name: 'surplus',
    title: '16 callers on 4 connections to a backend that, once, answers twice',
    wanted: 'the last wrong answer within 1 s',
    servers: [direct, httpProxy, nginx, haproxy],
    run: once(
      {
        ms: 4_000,
        setup: { connections: 4 },
        client: { everyMs: 1_000, connections: 1 },
        attack: {
          attack: 'echoes',
          head: head('NAME', { key: greedy.key }),
          connections: 16,
        },
      },
      ({ attack }) => [
        `${attack['wrong']} of ${attack['asked']} wrong, the last after ${attack['last wrong ms']} ms`,
        attack['last wrong ms'] ?? NaN,
      ],
    ),
    isMet: ({ value, sight }) => value <= 1_000 && (sight.attack['asked'] ?? 0) > 0,
  },
]
