/** The public listener with the pipeline behind it: builds the stages, brings every kind of arrival to them, drains. */
import { randomBytes } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import type { AnonymousLimiter } from '../counters/anonymous-limiter.ts'
import type { BanBook } from '../bans/ban-book.ts'
import { createConnections } from '../listeners/connections.ts'
import type { Forwarder, BackendFailure, Upgrader } from '../forwarding/forwarder.ts'
import type { JwtVerifier } from '../credentials/jwt-verifier.ts'
import type { KeyRing } from '../credentials/key-ring.ts'
import type { Log } from '../observability/log.ts'
import type { Metrics } from '../observability/metrics.ts'
import { createPublicServer } from '../listeners/public-server.ts'
import type { Config, ListenAddress } from '../config/config.ts'
import type { Exchange } from '../pipeline/exchange.ts'
import { createPipeline } from '../pipeline/pipeline.ts'
import type { Lessee } from '../quota/protocol.ts'
import { isRefusal, refuse } from '../rules/refusals.ts'
import { createClientAddress } from '../rules/client-address.ts'
import { createCheckFraming } from '../rules/framing.ts'
import { anonymousHeaders } from '../rules/quota-headers.ts'
import { createRequestId } from '../rules/request-id.ts'
import { compileRoutes } from '../rules/routes.ts'
import { createCheckTarget } from '../rules/target.ts'
import { createAccept } from '../pipeline/accept.ts'
import { createAuthenticate } from '../pipeline/authenticate.ts'
import { createCheckBan } from '../pipeline/check-ban.ts'
import { createForward } from '../pipeline/forward.ts'
import { createMatchRoute } from '../pipeline/match-route.ts'
import { createRecord } from '../pipeline/record.ts'
import { createRefuseUnparsed } from '../pipeline/refuse-unparsed.ts'
import { createTakeQuota, refund } from '../pipeline/take-quota.ts'
import { createUpgrade } from '../pipeline/upgrade.ts'
import { respond, responseOnSocket } from '../pipeline/respond.ts'

export interface FrontDoor {
  /** fd: a bound socket of this process to listen on, instead of server.listen. */
  listen(fd?: number): Promise<ListenAddress>
  inFlight(): number
  /** Stops accepting and waits for what is in flight; resolves with how many were cut off after timeoutMs. */
  drain(times: DrainTimes): Promise<number>
  /** Closes the connections to backends. */
  close(): Promise<void>
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
  readonly bans: BanBook
  readonly jwt: JwtVerifier | undefined
  readonly keyRing: KeyRing
  readonly anonymous: AnonymousLimiter
  readonly forwarder: Forwarder
  readonly upgrader: Upgrader
}

export function createFrontDoor(config: Config, parts: FrontDoorParts): FrontDoor {
  const { log, metrics, lessee, anonymous } = parts
  const connections = createConnections<Exchange>()
  const clientAddress = createClientAddress(config.server.trustedProxies)
  const requestId = createRequestId({ bootMs: Date.now(), random: randomBytes(8) })
  const begin = createAccept({
    connections,
    clientAddress,
    requestId,
    cancel: (exchange) => refund(lessee, exchange),
    record: createRecord({ log, metrics }),
  })
  let draining = false
  const tellAnonymous = async (exchange: Exchange): Promise<void> => {
    exchange.quotaHeaders = anonymousHeaders(await anonymous.peek(exchange.addressKey))
  }
  const stages = createStages(config, parts)
  const handle = createPipeline({
    ...stages,
    connections,
    lessee,
    tellAnonymous,
    accept: (arrival) => {
      const exchange = begin(arrival)
      metrics.requestStarted()
      // Keep-alive clients would hold the process up for as long as they have something to say.
      if (draining) exchange.response.shouldKeepAlive = false
      return exchange
    },
    onBug: (exchange, error) => log.internalError({ id: exchange.id, error }),
  })
  const refuseUnparsed = createRefuseUnparsed({
    connections,
    urlBytes: config.server.limits.urlBytes,
    headers: async (socket) => {
      const { key } = clientAddress(socket.remoteAddress ?? '', undefined)
      return ['X-Request-Id', requestId(undefined), ...anonymousHeaders(await anonymous.peek(key))]
    },
    cancel: (exchange) => refund(lessee, exchange),
    onRefused: (socket, refusal) => {
      metrics.refusedUnparsed(refusal.code)
      log.clientError({ address: socket.remoteAddress ?? '', code: refusal.cause ?? '' })
    },
  })
  const onSocket = (request: IncomingMessage, socket: Duplex, head: Buffer): void => {
    const serve = (): void => {
      // The connection may have ended with the answers that were waited for.
      if (socket.destroyed || connections.isClosing(socket)) return
      const response = responseOnSocket(request, socket)
      void handle({ request, response, expectsContinue: false, tunnel: { socket, head } })
    }
    // Node takes its own listeners away with the socket, and an error that nobody hears ends the process.
    socket.on('error', () => {})
    const state = connections.of(socket)
    // Answers to pipelined requests come first: a socket writes one response at a time.
    if (state.pending > 0) state.whenIdle = serve
    else serve()
  }
  const server = createPublicServer(config, {
    request: (request, response, expectsContinue) => {
      // Node drops what came in one packet behind a request with an Upgrade field: the rest would lack its beginning.
      if (request.headers.upgrade !== undefined) response.shouldKeepAlive = false
      void handle({ request, response, expectsContinue })
    },
    isHandshake: (request) => {
      const framing = stages.checkFraming(request)
      return !isRefusal(framing) && framing.websocket
    },
    upgrade: onSocket,
    connect: (request, socket) => onSocket(request, socket, Buffer.alloc(0)),
    clientError: refuseUnparsed,
  })
  return {
    listen: server.listen,
    inFlight: () => connections.inFlight.length,
    async drain({ timeoutMs, idleMs }) {
      draining = true
      const keepsIdleUntilMs = performance.now() + idleMs
      const closeIdle = (): void => {
        if (performance.now() >= keepsIdleUntilMs) server.closeIdle()
      }
      for (const { request, response } of connections.inFlight) {
        // An answer whose head has gone out can no longer say that it is the last: then we close behind it.
        response.once('close', () => setImmediate(closeIdle))
        // Of pipelined requests only the last one may say so: those behind it would lose their answers.
        const { latest } = connections.of(request.socket)
        if (latest?.response === response && !response.headersSent) response.shouldKeepAlive = false
      }
      const stopped = server.stop(idleMs)
      const timer = new AbortController()
      await Promise.race([stopped, sleep(timeoutMs, undefined, { signal: timer.signal })]).catch(
        () => undefined,
      )
      timer.abort()
      const cutOff = connections.inFlight.length
      // A copy, since answering and destroying ends them.
      for (const exchange of connections.inFlight.slice()) {
        if (exchange.forwarding?.abort() === false) refund(lessee, exchange)
        if (exchange.status === 0)
          respond(exchange, refuse('service_unavailable', { cause: 'drained' }))
        else exchange.request.socket.destroy()
      }
      server.destroy()
      return cutOff
    },
    async close() {
      server.destroy()
      await Promise.all([parts.forwarder.close(), parts.upgrader.close()])
    },
  }
}

/** The stages that need nothing of the listener. */
function createStages(config: Config, parts: FrontDoorParts) {
  const { log, metrics, lessee, bans } = parts
  const epochMs = (): number => Date.now()
  const onFailure = (exchange: Exchange, { kind, cause }: BackendFailure): void => {
    metrics.backendFailed(kind)
    log.backendFailed({ id: exchange.id, kind, cause })
  }
  return {
    checkFraming: createCheckFraming(config.server.limits),
    checkTarget: createCheckTarget(config.server.limits.urlBytes),
    matchRoute: createMatchRoute(
      compileRoutes({ routes: config.routes, basePath: config.server.basePath }),
      config.unmatched,
    ),
    authenticate: createAuthenticate({ ...parts, epochMs }),
    checkBan: createCheckBan(bans, epochMs),
    takeQuota: createTakeQuota({ lessee, bans, epochMs }),
    forward: createForward({
      forwarder: parts.forwarder,
      lessee,
      bodyLimitBytes: config.server.limits.bodyBytes,
      responseTimeoutMs: config.upstream.timeouts.responseMs,
      upgrade: createUpgrade({ upgrader: parts.upgrader, lessee, onFailure }),
      onFailure,
    }),
  }
}
