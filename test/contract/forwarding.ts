/** Forwards requests with the engine under test and records what its sink is told. */
import { once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { ConnectionOptions } from 'node:tls'
import { Engine, type EngineOptions, type ForwardJob } from '../../src/core/forwarding/engine.ts'
import { Forwarding, type Forwarder } from '../../src/core/forwarding/attempts.ts'
import type { BackendFailure } from '../../src/core/rules/backend-failure.ts'
import { balancerOf, engineOptions, retriesOf } from '../support/balancer.ts'
import { atEnd, gatewayEnds } from '../support/ending.ts'
import { listening } from '../support/listening.ts'
import { startRawBackend, type RawBackendOptions } from '../support/raw-backend.ts'
import { openRawClient, type RawClient } from '../support/raw-client.ts'

/** A GET that belongs to no connection, and what is different of it. */
export const jobWith = (job: Partial<ForwardJob>): ForwardJob => ({
  clientId: 'acme',
  startedMs: 0,
  method: 'GET',
  target: '/',
  headers: ['Host', 'animals.example'],
  body: undefined,
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
  outcome.handle = new Watched(jobWith(job), forwarder, outcome)
  outcome.handle.begin()
  outcome.forwardReturned = true
  return outcome
}

/** A request whose sink is an outcome. */
class Watched extends Forwarding {
  readonly #outcome: Outcome

  constructor(job: ForwardJob, forwarder: Forwarder, outcome: Outcome) {
    super(job, forwarder)
    this.#outcome = outcome
  }
  protected sentTo(): void {}
  override head(status: number, headers: string[]): void {
    super.head(status, headers)
    this.#outcome.head(status, headers)
  }
  data(chunk: Buffer): boolean {
    return this.#outcome.data(chunk)
  }
  override end(): void {
    super.end()
    this.#outcome.end()
  }
  protected refuse(failure: BackendFailure): void {
    this.#outcome.fail(failure)
  }
}

/** The sink of one exchange: what it was told, in order. */
export class Outcome {
  readonly calls: string[] = []
  status: number | undefined
  headers: string[] = []
  bodyBytes = 0
  failure: BackendFailure | undefined
  /** false from data() asks for a pause; set before the first byte comes. */
  accepts = true
  calledEarly = false
  forwardReturned = false
  handle: Forwarding | undefined
  request: IncomingMessage | undefined
  readonly #chunks: Buffer[] = []
  readonly #over = Promise.withResolvers<void>()
  /** Resolves behind end or fail. */
  readonly over = this.#over.promise

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

interface Settings extends Partial<Omit<EngineOptions, 'timeouts'>> {
  readonly timeouts?: Partial<EngineOptions['timeouts']>
  readonly tls?: ConnectionOptions
}
type AttemptClass = ConstructorParameters<typeof Engine>[0]

export type Front = ReturnType<typeof startFront>
export type Stage = ReturnType<typeof stageOf>

/** What the tests of an engine stand on, all of which ends with the file. */
export function stageOf(attempt: AttemptClass) {
  const front = (urls: string[], settings?: Settings) => startFront(attempt, urls, settings)
  return {
    front,
    /** A front before one backend, which answers so. */
    open: async (respond?: RawBackendOptions['respond'], settings?: Settings) => {
      const backend = await startRawBackend(respond && { respond })
      return { backend, front: front([backend.url], settings) }
    },
  }
}

/** The engine behind a balancer and the policy of attempts, as a gateway has it. */
function startFront(attempt: AttemptClass, urls: string[], { timeouts, ...rest }: Settings = {}) {
  const options = {
    ...engineOptions,
    timeouts: { ...engineOptions.timeouts, ...timeouts },
    ...rest,
  }
  const balancer = balancerOf(urls, options)
  const forwarder = {
    balancer,
    retries: retriesOf(balancer),
    engine: new Engine(attempt, options, balancer),
  }
  const outcomes: Outcome[] = []
  const keep = (outcome: Outcome): Outcome => {
    outcomes.push(outcome)
    return outcome
  }
  gatewayEnds(() => {
    for (const { handle } of outcomes) handle?.abort()
    forwarder.engine.close()
  })
  const front = {
    forwarder,
    /** A GET of no client, forwarded in this very turn of the event loop. */
    send: (target: string, job?: Partial<ForwardJob>, outcome?: Outcome) =>
      keep(forwardNow(forwarder, { target, ...job }, outcome)),
    /** The same, behind end or fail, when its connection has rested for the turns of the event loop that each engine gives it. */
    get: async (target: string, job?: Partial<ForwardJob>): Promise<Outcome> => {
      const outcome = front.send(target, job)
      await outcome.over
      for (let turns = 0; turns < 5; turns++) await nextTurn()
      return outcome
    },
    /** Sends the bytes as one client request and returns once the engine has been started with it. */
    start: async (bytes: string, job?: Partial<ForwardJob>) => {
      const { client, request } = await receive(bytes)
      const outcome = keep(new Outcome())
      outcome.request = request
      forwardNow(forwarder, { ...jobOf(request), ...job }, outcome)
      return { client, outcome }
    },
    /** The same, behind end or fail. */
    run: async (bytes: string, job?: Partial<ForwardJob>): Promise<Outcome> => {
      const { outcome } = await front.start(bytes, job)
      await outcome.over
      return outcome
    },
  }
  return front
}

/** A client, and its request as a server reads it. */
async function receive(bytes: string): Promise<{ client: RawClient; request: IncomingMessage }> {
  const server = createServer()
  const client = await openRawClient(await listening(server))
  atEnd(() => client.destroy())
  client.send(bytes.replace('\r\n', '\r\nHost: animals.example\r\n'))
  const [request] = (await once(server, 'request')) as [IncomingMessage]
  return { client, request }
}

const ownFields = new Set(['connection', 'transfer-encoding', 'keep-alive', 'expect'])

function jobOf(request: IncomingMessage): Partial<ForwardJob> {
  const { method = '', url: target = '', rawHeaders } = request
  const { 'content-length': length = '0', 'transfer-encoding': coding } = request.headers
  const isPassed = (name = ''): boolean => !ownFields.has(name.toLowerCase())
  const headers = rawHeaders.filter((_, at) => isPassed(rawHeaders[at - (at % 2)]))
  const body = coding !== undefined || Number(length) > 0 ? request : undefined
  return { method, target, headers, body, bodyLimitBytes: 128 * 1024 * 1024 }
}
