/** The public listener with the pipeline behind it: brings every kind of arrival to the policy in force, and drains. Outlives configurations. */
import { randomBytes } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Config, ListenAddress } from '../config/config.ts'
import { Connections } from '../listeners/connections.ts'
import { makeLast, responseOnSocket } from '../listeners/node-internals.ts'
import { createPublicServer, type PublicServer } from '../listeners/public-server.ts'
import type { Log } from '../observability/log.ts'
import type { Metrics } from '../observability/metrics.ts'
import { createAccept } from '../pipeline/accept.ts'
import type { Exchange } from '../pipeline/exchange.ts'
import { createPipeline, type Handle } from '../pipeline/pipeline.ts'
import { createRecord } from '../pipeline/record.ts'
import { createRefuseUnparsed } from '../pipeline/refuse-unparsed.ts'
import { respond } from '../pipeline/respond.ts'
import { refund } from '../pipeline/take-quota.ts'
import type { Lessee } from '../quota/lessee/lessee.ts'
import { isRefusal, refuse } from '../rules/refusals.ts'
import { createRequestId } from '../rules/request-id.ts'
import type { RequestPolicy } from './request-policy.ts'

export interface FrontDoor {
  /** From here on requests begin under this policy; those under way finish under theirs. */
  use(policy: RequestPolicy): void
  /** fd: a bound socket of this process to listen on, instead of server.listen. */
  listen(fd?: number): Promise<ListenAddress>
  inFlight(): number
  /** Stops accepting and waits for what is in flight; resolves with how many were cut off after timeoutMs. */
  drain(times: DrainTimes): Promise<number>
  /** Destroys what connections are left. */
  close(): void
}

export interface DrainTimes {
  readonly timeoutMs: number
  /** How long connections without a request stay open, so that one on its way is still answered. */
  readonly idleMs: number
}

export interface FrontDoorParts {
  readonly log: Log
  readonly metrics: Metrics
  readonly lessee: Lessee
  /** The first one. */
  readonly policy: RequestPolicy
}

export function createFrontDoor(config: Config, parts: FrontDoorParts): FrontDoor {
  return new Door(config, parts)
}

class Door implements FrontDoor {
  readonly #parts: FrontDoorParts
  readonly #connections = new Connections<Exchange>()
  readonly #requestId = createRequestId({ bootMs: Date.now(), random: randomBytes(8) })
  readonly #server: PublicServer
  readonly #handle: Handle
  /** Written by use() alone; read once per request, which takes it along. */
  #policy: RequestPolicy
  /** Written by drain() alone. */
  #isDraining = false

  constructor(config: Config, parts: FrontDoorParts) {
    this.#parts = parts
    this.#policy = parts.policy
    this.#handle = this.#createHandle()
    this.#server = createPublicServer(config, {
      request: (request, response, expectsContinue) => {
        // Node drops what came in one packet behind a request with an Upgrade field: the rest would lack its beginning.
        if (request.headers.upgrade !== undefined) makeLast(response)
        void this.#handle(this.#policy, { request, response, expectsContinue, tunnel: undefined })
      },
      isHandshake: (request) => {
        // The request itself comes in this same turn, so under this same policy.
        const framing = this.#policy.checkFraming(request)
        return !isRefusal(framing) && framing.websocket
      },
      upgrade: (request, socket, head) => this.#onSocket(request, socket, head),
      connect: (request, socket) => this.#onSocket(request, socket, Buffer.alloc(0)),
      clientError: this.#createRefuseUnparsed(),
    })
  }

  use(policy: RequestPolicy): void {
    this.#policy = policy
  }

  listen(fd?: number): Promise<ListenAddress> {
    return this.#server.listen(fd)
  }

  inFlight(): number {
    return this.#connections.inFlight.length
  }

  async drain({ timeoutMs, idleMs }: DrainTimes): Promise<number> {
    this.#isDraining = true
    this.#sayLast(idleMs)
    const stopped = this.#server.stop(idleMs)
    const timer = new AbortController()
    await Promise.race([stopped, sleep(timeoutMs, undefined, { signal: timer.signal })]).catch(
      () => undefined,
    )
    timer.abort()
    const cutOff = this.inFlight()
    this.#cutOff()
    this.#server.destroy()
    return cutOff
  }

  close(): void {
    this.#server.destroy()
  }

  #createHandle(): Handle {
    const { log, metrics, lessee } = this.#parts
    const accept = createAccept({
      connections: this.#connections,
      requestId: this.#requestId,
      cancel: (exchange) => refund(lessee, exchange),
      record: createRecord({ log, metrics }),
    })
    return createPipeline({
      connections: this.#connections,
      accept: (...arrival) => {
        const exchange = accept(...arrival)
        metrics.requestStarted()
        // Keep-alive clients would hold the process up for as long as they have something to say.
        if (this.#isDraining) makeLast(exchange.response)
        return exchange
      },
      onBug: (exchange, error) => log.internalError({ id: exchange.id, error }),
    })
  }

  #createRefuseUnparsed() {
    const { log, metrics, lessee } = this.#parts
    return createRefuseUnparsed({
      connections: this.#connections,
      policy: () => this.#policy,
      requestId: () => this.#requestId(undefined),
      cancel: (exchange) => refund(lessee, exchange),
      onRefused: (socket, refusal, target) => {
        metrics.refusedUnparsed(refusal.code)
        const address = socket.remoteAddress ?? ''
        log.clientError({ address, code: refusal.cause ?? '', target })
      },
    })
  }

  /** A request that came with its bare socket. */
  #onSocket(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    const policy = this.#policy
    const serve = (): void => {
      // The connection may have ended with the answers that were waited for.
      if (socket.destroyed || this.#connections.isClosing(socket)) return
      const response = responseOnSocket(request, socket)
      const tunnel = { socket, head }
      void this.#handle(policy, { request, response, expectsContinue: false, tunnel })
    }
    // Node takes its own listeners away with the socket, and an error that nobody hears ends the process.
    socket.on('error', () => {})
    const state = this.#connections.of(socket)
    // Answers to pipelined requests come first: a socket writes one response at a time.
    if (state.pending > 0) state.whenIdle = serve
    else serve()
  }

  /** At the start of a drain: on each connection the last answer says so, or is followed by a close. */
  #sayLast(idleMs: number): void {
    const keepsIdleUntilMs = performance.now() + idleMs
    const closeIdle = (): void => {
      if (performance.now() >= keepsIdleUntilMs) this.#server.closeIdle()
    }
    for (const { request, response } of this.#connections.inFlight) {
      // An answer whose head has gone out can no longer say that it is the last: then we close behind it.
      response.once('close', () => setImmediate(closeIdle))
      // Of pipelined requests only the last one may say so: those behind it would lose their answers.
      const { latest } = this.#connections.of(request.socket)
      if (latest?.response === response && !response.headersSent) makeLast(response)
    }
  }

  /** At the end of a drain: answers what can still be answered. */
  #cutOff(): void {
    const { lessee } = this.#parts
    // A copy, since answering and destroying ends them.
    for (const exchange of this.#connections.inFlight.slice()) {
      if (exchange.forwarding?.abort() === false) refund(lessee, exchange)
      if (exchange.status === 0)
        respond(exchange, refuse('service_unavailable', { cause: 'drained' }))
      else exchange.request.socket.destroy()
    }
  }
}
