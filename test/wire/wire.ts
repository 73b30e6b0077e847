/** One gateway between raw clients and a raw recording backend, with the counters that tell what was charged. */
import { readFileSync } from 'node:fs'
import type { ConnectionOptions } from 'node:tls'
import { expect, onTestFinished } from 'vitest'
import { keys, startTestGateway, type TestGateway } from '../support/gateway.ts'
import { startRawBackend, until, type RawBackend } from '../support/raw-backend.ts'
import type { RawBackendOptions } from '../support/raw-backend.ts'
import { openRawClient, rawExchange, type ParsedResponse } from '../support/raw-client.ts'
import { makeCertificates } from '../support/redis-tls.ts'
import type { RawClient, RawExchange, RawExchangeOptions } from '../support/raw-client.ts'

export { keys, until }

export const engines = ['direct', 'http-proxy-3'] as const
export type Engine = (typeof engines)[number]

export interface WireOptions extends RawBackendOptions {
  readonly engine?: Engine
  /** YAML blocks of the configuration, by their first key. */
  readonly blocks?: Readonly<Record<string, string>>
  /** Further keys of the server block, such as `hsts: 1y`. */
  readonly server?: string
  /** Further keys of the upstream block, such as `timeouts: { response: 1s }`. */
  readonly upstream?: string
  /** The backend is expected to see a request that broke off. */
  readonly requestsMayBreakOff?: boolean
  /** Origin of another backend, instead of the recording one. */
  readonly origin?: string
  /** Clients speak TLS, with these options. */
  readonly tls?: ConnectionOptions | undefined
  /** Further keys of `server.tls`. */
  readonly tlsKeys?: string
  /** Nothing listens where the backend should be. */
  readonly noBackend?: boolean
  /** The test stops the gateway. */
  readonly stopsItself?: boolean
  /** That of a test among concurrent ones. */
  readonly onTestFinished?: typeof onTestFinished
}

export interface AccessLine {
  readonly status: number
  readonly refusal?: string
  readonly [field: string]: unknown
}

export interface Wire {
  readonly gateway: TestGateway
  readonly backend: RawBackend
  /** A client that has sent these bytes, and is closed with the test. */
  connect(bytes?: string | Buffer): Promise<RawClient>
  /** All that comes back can be read as HTTP/1.1. */
  exchange(bytes: string | Buffer, options?: RawExchangeOptions): Promise<RawExchange>
  /** The first answer to these bytes, on a connection of its own. */
  ask(bytes: string): Promise<ParsedResponse>
  /** Requests charged to the client of the key in the running day, without this one's own. */
  charged(key?: string): Promise<number>
  /** Waits until nothing is in flight any more. */
  settled(): Promise<void>
  /** Waits for that many access lines (of requests that were not made by charged()) and returns them. */
  accessLines(count: number): Promise<AccessLine[]>
  /** `METHOD target` of all that the backend received. */
  served(): string[]
}

const DAY_LIMIT = 10_000
const PROBE = '/v1/nothing/here'

/** Fields that ask for a WebSocket, and the answer that agrees. */
export const handshake = [
  'Connection: Upgrade',
  'Upgrade: websocket',
  'Sec-WebSocket-Version: 13',
  'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
]
export const switched =
  'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n'

export const SMALL_LIMITS =
  'limits: { headerBytes: 2KiB, headerCount: 20, bodyBytes: 4KiB, urlBytes: 512B }'

/** The plans, of which free has these limits and pro is what it is and more. */
export const plansBlock = (free = 'perMinute: 1, perDay: 1', pro = ''): string => `plans:
  free: { ${free} }
  pro: { perMinute: 300, perDay: 10000${pro} }
  business: { perMinute: 1000, perDay: 100000 }
  enterprise: { custom: true }`

/** The server block with short time-outs; more: further keys. */
export const serverBlock = (more = ''): string =>
  `server:\n  listen: "127.0.0.1:0"\n  ${more.includes('timeouts:') ? '' : 'timeouts: { drain: 1s }'}\n  ${more}`

export const trusting = (): ConnectionOptions => ({ ca: readFileSync(makeCertificates().ca) })

function overTls(server: string, more = ''): string {
  const { cert, key } = makeCertificates().server
  return server.replace(
    /^server:(?:\n {2}| \{ ?)/,
    (start) =>
      `${start}tls: { cert: ${cert}, key: ${key}, ${more} }${start.includes('{') ? ', ' : '\n  '}`,
  )
}

async function start(options: WireOptions) {
  const { tls } = options
  const backend = await startRawBackend(options)
  const { server = serverBlock(options.server), ...blocks } = options.blocks ?? {}
  if (options.noBackend) await backend.close()
  const gateway = await startTestGateway({
    upstreams: [],
    blocks: {
      server: tls === undefined ? server : overTls(server, options.tlsKeys),
      upstream: `upstream: { urls: ["${options.origin ?? backend.url}"], engine: ${options.engine ?? 'direct'}, ${options.upstream ?? ''} }`,
      unmatched: 'unmatched: reject',
      routes: `routes:
  - { name: listPets, match: GET /pets }
  - { name: createPet, match: POST /pets }
  - { name: putPet, match: "PUT /pets/{petId}" }
  - { name: patchPet, match: "PATCH /pets/{petId}" }
  - { name: getPet, match: "GET /pets/{petId}" }
  - { name: deletePet, match: "DELETE /pets/{petId}" }
  - { name: live, match: GET /live, websocket: true }`,
      ...blocks,
    },
  })
  return { gateway, backend }
}

/** What the client of a key has used of its day; to ask is free, but where all that is unmatched is forwarded. */
async function dayOf(
  { port }: TestGateway,
  key: string = keys.pro,
  tls: ConnectionOptions | undefined,
) {
  const asked = { responses: 1, tls }
  const { responses, raw } = await rawExchange(port, request('GET', PROBE, { key }), asked)
  const left = /"day";r=(\d+)/.exec(responses[0]?.header('ratelimit') ?? '')?.[1]
  if (left === undefined) throw new Error(`no quota in ${raw.toString('latin1')}`)
  return { used: DAY_LIMIT - Number(left), isFree: responses[0]?.status === 404 }
}

/** A gateway and a backend that the test has for itself, held at its end to what is true of every exchange. */
export async function openWire(options: WireOptions = {}): Promise<Wire> {
  const { gateway, backend } = await start(options)
  const clients: RawClient[] = []
  const wire = wireOf(gateway, backend, { clients, tls: options.tls })
  const atTestEnd = options.onTestFinished ?? onTestFinished
  atTestEnd(async ({ task }) => {
    for (const client of clients) client.destroy()
    const failed = task.result?.state === 'fail'
    if (!failed && !options.stopsItself) await wire.settled()
    await gateway.stop()
    await backend.close()
    if (!failed && !options.requestsMayBreakOff) expect(backend.problems()).toEqual([])
  })
  return wire
}

function wireOf(
  gateway: TestGateway,
  backend: RawBackend,
  { clients, tls }: { clients: RawClient[]; tls: ConnectionOptions | undefined },
): Wire {
  let forwardedProbes = 0
  const ownLines = (): AccessLine[] =>
    gateway
      .logLines()
      .filter(({ event, path }) => event === 'access' && path !== PROBE) as AccessLine[]
  const wire: Wire = {
    gateway,
    backend,
    connect: async (bytes) => {
      const client = await openRawClient(gateway.port, { tls })
      if (bytes !== undefined) client.send(bytes)
      clients.push(client)
      return client
    },
    exchange: async (bytes, more) => {
      const exchanged = await rawExchange(gateway.port, bytes, { tls, ...more })
      expect(exchanged.problem).toBeUndefined()
      return exchanged
    },
    ask: async (bytes) => {
      const { responses, raw } = await wire.exchange(bytes, { responses: 1 })
      const final = responses.find(({ status }) => status >= 200 || status === 101)
      if (final === undefined) throw new Error(`no answer in ${raw.toString('latin1')}`)
      return final
    },
    charged: async (key) => {
      const { used, isFree } = await dayOf(gateway, key, tls)
      if (!isFree) forwardedProbes++
      return used - forwardedProbes
    },
    settled: () =>
      until(
        async () => (await gateway.metric('tollgate_requests_in_flight')) === 0,
        'nothing in flight',
      ),
    accessLines: async (count) => {
      await until(() => ownLines().length >= count, `${count} access lines`)
      return ownLines()
    },
    served: () =>
      backend.requests
        .filter(({ target }) => target !== PROBE)
        .map(({ method, target }) => `${method} ${target}`),
  }
  return wire
}

export interface RequestOptions {
  /** null: no Authorization field. */
  readonly key?: string | null
  /** Lines without line ends. */
  readonly fields?: readonly string[]
  readonly body?: string
  readonly version?: string
  /** null: no Host field. */
  readonly host?: string | null
}

/** The bytes of a request; nothing is added that is not asked for, but Host and Authorization. */
export function request(
  method: string,
  target: string,
  {
    key = keys.pro,
    fields = [],
    body = '',
    version = '1.1',
    host = 'api.example',
  }: RequestOptions = {},
): string {
  const lines = [`${method} ${target} HTTP/${version}`]
  if (host !== null) lines.push(`Host: ${host}`)
  if (key !== null) lines.push(`Authorization: Bearer ${key}`)
  return `${[...lines, ...fields].join('\r\n')}\r\n\r\n${body}`
}

/** Holds an answer of the gateway's own to the Error resource and to the headers that stand on every answer. */
export function expectRefusal(
  answer: ParsedResponse | undefined,
  status: number,
  { code, closes }: { code: string; closes: boolean },
): void {
  expect(answer?.status).toBe(status)
  expect(answer?.complete).toBe(true)
  expect(answer?.header('content-type')).toBe('application/json; charset=utf-8')
  const error = JSON.parse(answer?.body.toString() ?? '') as object
  expect(error).toMatchObject({ code, status, message: expect.any(String) as string })
  // What else a 429 has in its body is for the tests of the stages that give it.
  if (status !== 429) expect(Object.keys(error)).toHaveLength(3)
  expectGatewayFields(answer)
  expect(answer?.header('connection') === 'close').toBe(closes)
}

/** All that comes of these bytes is one refusal, which ends the connection and is free; no backend hears of them. */
export async function expectOnlyRefusal(
  { exchange, served, charged }: Wire,
  bytes: string,
  [status, code]: readonly [number, string],
): Promise<ParsedResponse | undefined> {
  const { responses, closed, problem } = await exchange(bytes)
  expect(problem).toBeUndefined()
  expectRefusal(responses[0], status, { code, closes: true })
  expect([responses.length, closed, served(), await charged()]).toEqual([1, true, [], 0])
  return responses[0]
}

/** The id that the client was told leads to a line of the log. */
export async function expectLogged(
  gateway: TestGateway,
  answer: ParsedResponse | undefined,
): Promise<void> {
  const id = answer?.header('x-request-id')
  expect(id).toMatch(/./)
  await until(() => gateway.logLines().some((line) => line['id'] === id), 'its line')
}

export function expectGatewayFields(answer: ParsedResponse | undefined): void {
  for (const name of [
    'x-request-id',
    'x-ratelimit-limit',
    'x-ratelimit-remaining',
    'x-ratelimit-reset',
    'ratelimit',
    'ratelimit-policy',
  ])
    expect(answer?.all(name), name).toHaveLength(1)
}
