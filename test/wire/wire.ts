/** One gateway between raw clients and a raw recording backend, with the counters that tell what was charged. */
import { readFileSync } from 'node:fs'
import type { ConnectionOptions } from 'node:tls'
import { expect } from 'vitest'
import { keys, startTestGateway, type TestGateway } from '../support/gateway.ts'
import { startRawBackend, until, type RawBackend } from '../support/raw-backend.ts'
import type { RawBackendOptions } from '../support/raw-backend.ts'
import { openRawClient, rawExchange, type ParsedResponse } from '../support/raw-client.ts'
import { makeCertificates, type Certificates } from '../support/redis-tls.ts'
import type { RawClient, RawExchange, RawExchangeOptions } from '../support/raw-client.ts'

export { keys, until }

export const engines = ['direct', 'undici', 'http-proxy-3'] as const
export type Engine = (typeof engines)[number]

export interface WireOptions extends RawBackendOptions {
  readonly engine?: Engine
  /** YAML blocks of the configuration, by their first key. */
  readonly blocks?: Readonly<Record<string, string>>
  /** Further keys of the upstream block, such as `timeouts: { response: 1s }`. */
  readonly upstream?: string
  /** The backend is expected to see a request that broke off. */
  readonly requestsMayBreakOff?: boolean
  /** Origin of another backend, instead of the recording one. */
  readonly origin?: string
  /** Clients speak TLS, with these options. Default: none, but with TOLLGATE_WIRE=tls in the environment. */
  readonly tls?: ConnectionOptions | undefined
  /** Further keys of `server.tls`. */
  readonly tlsKeys?: string
  /** Nothing listens where the backend should be. */
  readonly noBackend?: boolean
}

export interface AccessLine {
  readonly status: number
  readonly refusal?: string
  readonly [field: string]: unknown
}

export interface Wire {
  readonly gateway: TestGateway
  readonly backend: RawBackend
  /** A client that is closed with the wire. */
  connect(): Promise<RawClient>
  exchange(bytes: string | Buffer, options?: RawExchangeOptions): Promise<RawExchange>
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

/** The server block with short time-outs; more: further keys. */
export const serverBlock = (more = ''): string =>
  `server:\n  listen: "127.0.0.1:0"\n  ${more.includes('timeouts:') ? '' : 'timeouts: { drain: 1s }'}\n  ${more}`

let made: Certificates | undefined

/** Made once for all tests of a file. */
export function certificates(): Certificates {
  if (made !== undefined) return made
  const fresh = (made = makeCertificates())
  process.once('exit', () => fresh.remove())
  return fresh
}

export const trusting = (): ConnectionOptions => ({ ca: readFileSync(certificates().ca) })

function overTls(server: string, more = ''): string {
  const { cert, key } = certificates().server
  return server.replace(
    /^server:(?:\n {2}| \{ ?)/,
    (start) =>
      `${start}tls: { cert: ${cert}, key: ${key}, ${more} }${start.includes('{') ? ', ' : '\n  '}`,
  )
}

/** Runs the work with a gateway and a backend of its own, and holds both to what is true of every exchange. */
export async function withWire(
  options: WireOptions,
  work: (wire: Wire) => Promise<void>,
  { stopsItself = false } = {},
): Promise<void> {
  const backend = await startRawBackend(options)
  const tls = options.tls ?? (process.env['TOLLGATE_WIRE'] === 'tls' ? trusting() : undefined)
  const { server = serverBlock(), ...blocks } = options.blocks ?? {}
  if (options.noBackend) await backend.close()
  const gateway = await startTestGateway({
    upstreams: [],
    blocks: {
      server: tls === undefined ? server : overTls(server, options.tlsKeys),
      upstream: `upstream: { urls: ["${options.origin ?? backend.url}"], engine: ${options.engine ?? 'undici'}, ${options.upstream ?? ''} }`,
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
  const clients: RawClient[] = []
  const wire = wireOf(gateway, backend, { clients, tls })
  let failed = true
  try {
    await work(wire)
    failed = false
  } finally {
    for (const client of clients) client.destroy()
    if (!failed && !stopsItself) await wire.settled()
    await gateway.stop()
    if (!options.noBackend) await backend.close()
  }
  if (!options.requestsMayBreakOff) expect(backend.problems()).toEqual([])
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
    connect: async () => {
      const client = await openRawClient(gateway.port, { tls })
      clients.push(client)
      return client
    },
    exchange: (bytes, more) =>
      rawExchange(gateway.port, bytes, { timeoutMs: 15_000, tls, ...more }),
    charged: async (key = keys.pro) => {
      const answered = await wire.exchange(request('GET', PROBE, { key }), { responses: 1 })
      const left = /"day";r=(\d+)/.exec(answered.responses[0]?.header('ratelimit') ?? '')?.[1]
      if (left === undefined) throw new Error(`no quota in ${answered.raw.toString('latin1')}`)
      // With unmatched: reject the question is free.
      if (answered.responses[0]?.status !== 404) forwardedProbes++
      return DAY_LIMIT - Number(left) - forwardedProbes
    },
    settled: async () => {
      const deadline = Date.now() + 15_000
      while ((await gateway.metric('tollgate_requests_in_flight')) !== 0)
        if (Date.now() > deadline) throw new Error('requests stay in flight')
    },
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
  expect(JSON.parse(answer?.body.toString() ?? '')).toEqual({
    code,
    status,
    message: expect.any(String) as string,
  })
  expectGatewayFields(answer)
  expect(answer?.header('connection') === 'close').toBe(closes)
}

/** The id that the client was told leads to a line of the log. */
export async function expectLogged(
  gateway: TestGateway,
  answer: ParsedResponse | undefined,
): Promise<void> {
  const id = answer?.header('x-request-id')
  expect(id).toMatch(/./)
  await expect.poll(() => gateway.logLines().map((line) => line['id'])).toContain(id)
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
