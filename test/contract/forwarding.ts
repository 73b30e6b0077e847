/** A front server that forwards each request with the engine under test and records what its sink is told. */
import { createServer, IncomingMessage, type ServerResponse } from 'node:http'
import { Socket, type AddressInfo } from 'node:net'
import type { ConnectionOptions } from 'node:tls'
import type { Engine, ForwardHandle, ForwardJob } from '../../src/forwarding/forwarder.ts'
import type { ForwardSink } from '../../src/forwarding/forwarder.ts'
import type { EngineOptions } from '../../src/forwarding/engine.ts'
import type { Backend } from '../../src/backends/backend.ts'
import { Forwarder } from '../../src/forwarding/attempts.ts'
import type { BackendFailure } from '../../src/rules/backend-failure.ts'
import { balancerOf, retriesOf } from '../support/balancer.ts'
import { until } from '../support/raw-backend.ts'
import { openRawClient, type RawClient } from '../support/raw-client.ts'

/** A GET that belongs to no connection, and what is different of it. */
export const jobWith = (job: Partial<ForwardJob>): ForwardJob => ({
  clientId: 'acme',
  startedMs: 0,
  method: 'GET',
  target: '/',
  headers: ['Host', 'animals.example'],
  request: new IncomingMessage(new Socket()),
  hasBody: false,
  bodyLimitBytes: 0,
  responseTimeoutMs: 10_000,
  ...job,
})

/** Forwards it in this very turn of the event loop. */
export function forwardNow(
  forwarder: Forwarder,
  job: Partial<ForwardJob>,
  outcome = new Outcome(),
): Outcome {
  outcome.handle = forwarder.forward(jobWith(job), outcome)
  outcome.forwardReturned = true
  return outcome
}

type Optional = 'connectionUses' | 'connectionAgeMs' | 'onSurplus'

export interface FrontOptions
  extends Omit<EngineOptions, Optional>, Partial<Pick<EngineOptions, Optional>> {
  readonly urls: readonly string[]
  readonly tls?: ConnectionOptions
}

export type CreateEngine = (options: EngineOptions) => Engine

/** The engine behind a balancer and the policy of attempts, as a gateway has it. */
export function forwarderOn(create: CreateEngine, { urls, ...rest }: FrontOptions): Forwarder {
  const onSurplus = (backend: Backend): void => balancer.surplus(backend)
  const options = { connectionUses: 1_000_000, connectionAgeMs: 600_000, onSurplus, ...rest }
  const balancer = balancerOf(urls, options)
  return new Forwarder(balancer, retriesOf(balancer), create(options))
}

/** The sink of one exchange: what it was told, in order. */
export class Outcome implements ForwardSink {
  readonly calls: string[] = []
  status: number | undefined
  headers: string[] = []
  bodyBytes = 0
  failure: BackendFailure | undefined
  /** false from data() asks for a pause; set before the first byte comes. */
  accepts = true
  calledEarly = false
  forwardReturned = false
  handle: ForwardHandle | undefined
  /** Names of the backends, in the order they were tried. */
  readonly backends: string[] = []
  request: IncomingMessage | undefined
  readonly #chunks: Buffer[] = []
  readonly #over = Promise.withResolvers<void>()
  /** Resolves behind end or fail. */
  readonly over = this.#over.promise

  sentTo(backend: string): void {
    this.backends.push(backend)
  }
  head(status: number, headers: string[]): void {
    this.#note('head')
    this.status = status
    this.headers = headers
  }
  data(chunk: Buffer): boolean {
    this.#note('data')
    this.#chunks.push(chunk)
    this.bodyBytes += chunk.length
    return this.accepts
  }
  end(): void {
    this.#note('end')
    this.#over.resolve()
  }
  fail(failure: BackendFailure): void {
    this.#note('fail')
    this.failure = failure
    this.#over.resolve()
  }
  get body(): string {
    return Buffer.concat(this.#chunks).toString('latin1')
  }
  get settled(): boolean {
    return this.calls.some((call) => call === 'end' || call === 'fail')
  }
  all(name: string): string[] {
    return this.headers.filter((_, at) => at % 2 === 1 && this.headers[at - 1] === name)
  }
  #note(call: string): void {
    if (!this.forwardReturned) this.calledEarly = true
    if (call !== 'data' || this.calls.at(-1) !== 'data') this.calls.push(call)
  }
}

export interface Front {
  readonly port: number
  readonly forwarder: Forwarder
  /** Sends the bytes as one client request and returns once the engine has been started with it. */
  start(
    bytes: string | Buffer,
    job?: Partial<ForwardJob>,
  ): Promise<{ outcome: Outcome; client: RawClient }>
  /** Sends the request and waits for end or fail. */
  run(bytes: string | Buffer, job?: Partial<ForwardJob>): Promise<Outcome>
  get(target: string, job?: Partial<ForwardJob>): Promise<Outcome>
  close(): Promise<void>
}

const ownFields = new Set(['connection', 'transfer-encoding', 'keep-alive', 'expect'])

export async function startFront(
  create: CreateEngine,
  urls: readonly string[],
  {
    timeouts,
    ...options
  }: Partial<Omit<FrontOptions, 'urls' | 'timeouts'>> & {
    timeouts?: Partial<FrontOptions['timeouts']>
  } = {},
): Promise<Front> {
  const forwarder = forwarderOn(create, {
    urls,
    connections: 8,
    timeouts: { connectMs: 2_000, responseMs: 10_000, idleMs: 10_000, ...timeouts },
    ...options,
  })
  const clients: RawClient[] = []
  const waiting = new Map<string, { outcome: Outcome; job: Partial<ForwardJob> }>()
  const server = createServer({ keepAliveTimeout: 60_000, requestTimeout: 0 })
  const onRequest = (request: IncomingMessage, response: ServerResponse): void => {
    const id = String(request.headers['x-test-id'])
    const { outcome, job } = waiting.get(id) ?? { outcome: new Outcome(), job: {} }
    response.on('error', () => {})
    request.on('error', () => {})
    outcome.request = request
    outcome.handle = forwarder.forward(jobOf(request, job), outcome)
    outcome.forwardReturned = true
  }
  server.on('request', onRequest)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  let count = 0
  const front: Front = {
    port,
    forwarder,
    start: async (bytes, job = {}) => {
      const id = String(++count)
      const outcome = new Outcome()
      waiting.set(id, { outcome, job })
      const client = await openRawClient(port)
      clients.push(client)
      const text = Buffer.isBuffer(bytes) ? bytes.toString('latin1') : bytes
      client.send(text.replace('\r\n', `\r\nHost: animals.example\r\nX-Test-Id: ${id}\r\n`))
      await until(() => outcome.forwardReturned, 'forward to be called')
      return { outcome, client }
    },
    run: async (bytes, job) => {
      const { outcome } = await front.start(bytes, job)
      await until(() => outcome.settled, 'end or fail')
      return outcome
    },
    get: (target, job) => front.run(`GET ${target} HTTP/1.1\r\n\r\n`, job),
    close: async () => {
      for (const { outcome } of waiting.values()) outcome.handle?.abort()
      for (const client of clients) client.destroy()
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
      await forwarder.close()
    },
  }
  return front
}

function jobOf(request: IncomingMessage, overrides: Partial<ForwardJob>): ForwardJob {
  const headers: string[] = []
  for (let at = 0; at < request.rawHeaders.length; at += 2) {
    const name = request.rawHeaders[at] ?? ''
    if (!ownFields.has(name.toLowerCase())) headers.push(name, request.rawHeaders[at + 1] ?? '')
  }
  const length = request.headers['content-length']
  return {
    clientId: request.headers['x-client']?.toString() ?? 'acme',
    startedMs: 0,
    method: request.method ?? '',
    target: request.url ?? '',
    headers,
    request,
    hasBody: request.headers['transfer-encoding'] !== undefined || Number(length ?? 0) > 0,
    bodyLimitBytes: 128 * 1024 * 1024,
    responseTimeoutMs: 10_000,
    ...overrides,
  }
}
