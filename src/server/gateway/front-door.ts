/** The public listener with the pipeline behind it: passes every kind of arrival to the policy in force, and drains. Outlives configurations. */
import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises'
import type { Config, ListenAddress } from '../../config/config.ts'
import {
  type ConnectionRoom,
  enoughFiles,
  openFilesAtMost,
  roomForConnections,
} from '../../core/http/connection-room.ts'
import { Connections } from '../../core/http/connections.ts'
import type { Log } from '../../core/record/log.ts'
import { PublicServer } from '../../core/http/public-server.ts'
import type { ServerEvents } from '../../core/http/server-parts.ts'
import { runStages } from '../../core/http/turn-stages.ts'
import type { PipelineParts } from '../../core/pipeline/exchange.ts'
import { handle } from '../../core/pipeline/pipeline.ts'
import { SlowClients } from '../../core/pipeline/slow-clients.ts'
import { giveUpWith, refuseUnparsed, respond } from '../../core/pipeline/respond.ts'
import { giveUp } from '../../core/pipeline/take-quota.ts'
import type { Caller } from '../../core/rules/credentials.ts'
import { refuse } from '../../core/rules/refusals.ts'
import type { LastingParts } from './lasting-parts.ts'
import type { RequestPolicy } from './request-policy.ts'
import { readServerTls } from './tls-files.ts'

/** The end of a request or of a connection shows two turns later. */
const endsShow = (): Promise<void> => turn().then(() => turn())

/** A tunnel whose caller is no longer admitted ends within a second. */
const REVIEW_EVERY_MS = 500

export class FrontDoor {
  /** Parts that a request uses whatever its policy. */
  readonly #parts: PipelineParts
  readonly #server: PublicServer
  readonly #reviews: NodeJS.Timeout
  readonly #slowClients: SlowClients
  /** Written by use() alone; each request reads it once and keeps it. */
  #policy: RequestPolicy
  /** The time of a drain is over: a request that began now would be charged, and its answer cut off. Written by #answerRest. */
  #isOver = false

  /** policy: the first one. Throws an Error that names key, file and remedy when TLS cannot be served. */
  constructor(config: Config, policy: RequestPolicy, lasting: LastingParts) {
    const { log, metrics } = lasting
    const connections = new Connections(roomFor(config, log), metrics.connectionDisplaced)
    metrics.watchConnections(connections)
    lasting.load.arrivals = connections.arrivals
    this.#parts = { ...lasting, connections, isDraining: false }
    this.#policy = policy
    const judge = (caller: Caller) => this.#policy.unwelcome(caller)
    this.#reviews = setInterval(() => lasting.tunnels.review(judge), REVIEW_EVERY_MS).unref()
    this.#slowClients = new SlowClients(this.#parts)
    this.#server = new PublicServer(config, {
      connections,
      identity: readServerTls(config.server.tls),
      secret: lasting.ticketSecret,
      events: this.#events(),
    })
    metrics.watchHttp2(() => this.#server.http2Size)
  }

  #events(): ServerEvents {
    const { connections, log, metrics } = this.#parts
    return {
      addressOf: (address) => this.#policy.clientAddress(address, undefined),
      refused: (address, reason) => {
        metrics.connectionRefused(reason)
        log.connectionRefused({ address, reason })
      },
      handshakeFailed: (address, reason, cause) => {
        metrics.handshakeFailed(reason)
        log.handshakeFailed({ address, reason, cause })
      },
      request: (request, response, connection) =>
        this.#isOver
          ? response.destroy()
          : void handle(this.#parts, this.#policy, { connection, request, response }),
      unreadable: (...unread) => void refuseUnparsed(this.#parts, this.#policy, unread),
      broken: (request, refusal) => {
        const exchange = connections.inFlight.find((one) => one.request === request)
        if (exchange?.isOver === false) giveUpWith(this.#parts, exchange, refusal)
      },
      abuse: (kind) => metrics.http2Abuse(kind),
    }
  }

  /** Requests that begin after this call use this policy, and tunnels are judged by it; requests under way finish under theirs. config: the policy's. */
  use(policy: RequestPolicy, config: Config): void {
    this.#policy = policy
    const { connections, log } = this.#parts
    connections.room = roomFor(config, log, connections.room)
  }

  /** Returns a call that applies this configuration to connections and to what is read from them. Throws as the constructor does. */
  prepare(config: Config): () => void {
    return this.#server.prepare(config, readServerTls(config.server.tls))
  }

  /** fd: a bound socket of this process to listen on, instead of server.listen. */
  listen(fd?: number): Promise<ListenAddress> {
    return this.#server.listen(fd)
  }

  get inFlight(): number {
    return this.#parts.connections.inFlight.length
  }

  /**
   * Stops accepting and waits for what is in flight; resolves with how many were cut off after timeoutMs.
   * idleMs: how long connections without a request stay open, so that one on its way is still answered.
   */
  async drain({ timeoutMs, idleMs }: { timeoutMs: number; idleMs: number }): Promise<number> {
    this.#parts.isDraining = true
    this.#parts.tunnels.drain()
    // The last answer of each connection says so. What came behind it is answered as well.
    for (const { connection, response } of this.#parts.connections.inFlight)
      if (!response.headersSent && connection.protocol?.hasMore !== true)
        response.shouldKeepAlive = false
    const stopped = this.#server.stop(idleMs).then(endsShow)
    // After the time-out nothing is left to wait for, and before it the timer must not keep the process alive.
    const late = sleep(timeoutMs, undefined, { ref: false })
    await Promise.race([stopped, late]).catch(() => undefined)
    // What is decided already is sent.
    await endsShow()
    const cutOff = this.inFlight
    this.#answerRest()
    await endsShow()
    for (const exchange of this.#parts.connections.inFlight.slice()) {
      exchange.cause ??= 'drained'
      exchange.response.destroy()
    }
    this.#server.destroy()
    await turn()
    runStages()
    return cutOff
  }

  close(): void {
    clearInterval(this.#reviews)
    this.#slowClients.close()
    this.#server.destroy()
  }

  /** Answers at the end of a drain what can still be answered. */
  #answerRest(): void {
    // What was decided in this very turn is sent.
    runStages()
    this.#isOver = true
    // A copy, since answering ends some.
    for (const exchange of this.#parts.connections.inFlight.slice()) {
      giveUp(this.#parts, exchange)
      exchange.response.shouldKeepAlive = false
      if (exchange.status === 0)
        respond(exchange, refuse('service_unavailable', { cause: 'drained' }))
    }
    runStages()
  }
}

/** before: the room that was reported already. */
function roomFor(config: Config, log: Log, before?: ConnectionRoom): ConnectionRoom {
  const room = roomForConnections(config, openFilesAtMost())
  if (room.openFiles !== undefined && room.connections !== before?.connections)
    log.filesAreFew({ ...room, wanted: enoughFiles(config) })
  return room
}
