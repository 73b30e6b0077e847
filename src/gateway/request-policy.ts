/** Everything a configuration decides about a request, built in one call. Nothing in it changes: a new configuration is a new policy. */
import type { BanBook } from '../bans/ban-book.ts'
import {
  createAnonymousLimiter,
  type AddressCounter,
  type AnonymousView,
} from '../counters/anonymous-limiter.ts'
import type { TurnsOfClients } from '../counters/client-turns.ts'
import {
  createJwtVerifier,
  type JwtVerifier,
  type KeySetFault,
} from '../credentials/jwt-verifier.ts'
import { createKeyRing, type UsedKeys } from '../credentials/key-ring.ts'
import type { Balancer } from '../backends/balancer.ts'
import type { Forwarder } from '../forwarding/attempts.ts'
import type { Upgrader } from '../forwarding/upgrades.ts'
import type { Log } from '../observability/log.ts'
import type { Metrics } from '../observability/metrics.ts'
import type { Config } from '../config/config.ts'
import type { Lessee } from '../quota/lessee/lessee.ts'
import { createAnswerPreflight } from '../pipeline/answer-preflight.ts'
import { createAuthenticate } from '../pipeline/authenticate.ts'
import { createCheckBan } from '../pipeline/check-ban.ts'
import { createForward } from '../pipeline/forward.ts'
import { createMatchRoute } from '../pipeline/match-route.ts'
import { createReceiveBody } from '../pipeline/receive-body.ts'
import { createShedLoad } from '../pipeline/shed-load.ts'
import { createTakeQuota } from '../pipeline/take-quota.ts'
import { createTakeTurn } from '../pipeline/take-turn.ts'
import { createCors } from '../rules/cors.ts'
import { createClientAddress } from '../rules/client-address.ts'
import { createCheckFraming } from '../rules/framing.ts'
import { anonymousHeaders } from '../rules/quota-headers.ts'
import { compileRoutes, type RouteTable } from '../rules/routes.ts'
import type { Caller } from '../rules/credentials.ts'
import type { OwnEnd } from '../rules/websocket.ts'
import { whenKnown } from '../rules/when-known.ts'
import { createCheckTarget } from '../rules/target.ts'
import type { LoadWatch } from './load-watch.ts'

export type RequestPolicy = ReturnType<typeof createRequestPolicy>

/** What outlives a configuration. */
export interface LastingParts {
  readonly log: Log
  readonly metrics: Metrics
  readonly lessee: Lessee
  readonly bans: BanBook
  readonly addresses: AddressCounter
  /** Counts in seconds. */
  readonly preflights: AddressCounter
  readonly turns: TurnsOfClients
  readonly balancer: Balancer
  readonly forwarder: Forwarder
  readonly upgrader: Upgrader
  readonly load: LoadWatch
  readonly usedKeys: UsedKeys
  /** Called each time the key set of the token issuer was fetched, or could not be. */
  onKeySet(fault: KeySetFault | undefined): void
}

/** Throws an Error that names the fault when jwt.jwksFile cannot be used. */
export function createRequestPolicy(config: Config, parts: LastingParts) {
  const { lessee, bans, forwarder, upgrader, log, metrics, load } = parts
  const { server, upstream, anonymous, clients } = config
  const limiter = createAnonymousLimiter({ ...anonymous, counter: parts.addresses })
  const jwt = createVerifier(config, parts)
  const keyRing = createKeyRing(clients, parts.usedKeys, server.structuredQuotaHeaders)
  const headersOf = (view: AnonymousView): string[] =>
    anonymousHeaders(view, server.structuredQuotaHeaders)
  const table = compileRoutes({ routes: config.routes, basePath: server.basePath })
  return Object.freeze({
    lessee,
    urlBytes: server.limits.urlBytes,
    checkFraming: createCheckFraming(server.limits),
    checkTarget: createCheckTarget(server.limits.urlBytes),
    clientAddress: createClientAddress(server.trustedProxies),
    peekAnonymous: (address: string) => whenKnown(limiter.peek(address), headersOf),
    matchRoute: createMatchRoute(table, config.unmatched),
    ...createCorsStages(config, table, parts.preflights),
    authenticate: createAuthenticate({
      keyRing,
      jwt,
      anonymous: limiter,
      anonymousHeaders: headersOf,
      load,
    }),
    checkBan: createCheckBan(bans, lessee),
    shedLoad: createShedLoad(load, lessee),
    takeQuota: createTakeQuota(lessee, bans),
    takeTurn: createTakeTurn(parts.turns),
    receiveBody: createReceiveBody({
      bufferedBytes: server.limits.bufferedBodyBytes,
      bodyLimitBytes: server.limits.bodyBytes,
    }),
    forward: createForward({
      forwarder,
      upgrader,
      lessee,
      log,
      metrics,
      bodyLimitBytes: server.limits.bodyBytes,
      responseTimeoutMs: upstream.timeouts.responseMs,
      host: upstream.host,
    }),
    /** Why a caller who was let in earlier would not be let in now. */
    unwelcome: (caller: Caller): OwnEnd | undefined => {
      const nowMs = Date.now()
      const { keyDigest } = caller
      const current = keyDigest === undefined ? jwt && caller : keyRing.findDigest(keyDigest)
      if (current === undefined) return 'revoked'
      if (nowMs >= current.expiresAtMs) return 'expired'
      return bans.check(caller.keyId, nowMs) && 'banned'
    },
    /** Resolves when the issuer's keys are there or could not be had. */
    ready: async (): Promise<void> => jwt?.ready(),
    /** Fetches no keys any more. */
    close: (): void => jwt?.close(),
  })
}

function createCorsStages(
  { cors: granted, unmatched }: Config,
  table: RouteTable,
  addresses: AddressCounter,
) {
  const cors = granted && createCors(granted)
  return {
    cors,
    answerPreflight: cors && createAnswerPreflight({ cors, table, unmatched, addresses }),
  }
}

function createVerifier(
  { jwt, clients, plans, server }: Config,
  { log, metrics, onKeySet }: LastingParts,
): JwtVerifier | undefined {
  return (
    jwt &&
    createJwtVerifier(jwt, {
      clients,
      plans,
      isStructured: server.structuredQuotaHeaders,
      observer: {
        keySetFetched: (fault) => {
          metrics.keySetFetched(fault === undefined)
          if (fault !== undefined) log.keySetFailed({ cause: fault.cause })
          onKeySet(fault)
        },
        unavailable: (reason) => metrics.credentialUnavailable(reason),
      },
    })
  )
}
