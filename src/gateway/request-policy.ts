/** Everything a configuration decides about a request, built in one call. Nothing in it changes: a new configuration is a new policy. */
import {
  createAnonymousLimiter,
  type AddressCounter,
  type AnonymousView,
} from '../counters/anonymous-limiter.ts'
import type { JwtVerifier } from '../credentials/jwt-verifier.ts'
import { createKeyRing } from '../credentials/key-ring.ts'
import { createTokenCallers } from '../credentials/token-callers.ts'
import type { Config } from '../config/config.ts'
import { createAnswerPreflight } from '../pipeline/answer-preflight.ts'
import { createAuthenticate } from '../pipeline/authenticate.ts'
import { createCheckBan } from '../pipeline/check-ban.ts'
import { createForward } from '../pipeline/forward.ts'
import type { Terms } from '../pipeline/exchange.ts'
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
import type { LastingParts } from './lasting-parts.ts'
import type { Upstream } from './upstream.ts'

export type RequestPolicy = ReturnType<typeof createRequestPolicy>

/** verifier: undefined: tokens are not accepted. */
export function createRequestPolicy(
  config: Config,
  parts: LastingParts,
  { upstream, verifier }: { upstream: Upstream; verifier: JwtVerifier | undefined },
) {
  const { lessee, bans, log, metrics, load } = parts
  const { server, anonymous, clients } = config
  const limiter = createAnonymousLimiter({ ...anonymous, counter: parts.addresses })
  const isStructured = server.structuredQuotaHeaders
  const callerOf = createTokenCallers({ clients, plans: config.plans, isStructured })
  const keyRing = createKeyRing(clients, parts.usedKeys, isStructured)
  const headersOf = (view: AnonymousView): string[] => anonymousHeaders(view, isStructured)
  const table = compileRoutes({ routes: config.routes, basePath: server.basePath })
  return Object.freeze({
    lessee,
    terms: termsOf(config, upstream),
    urlBytes: server.limits.urlBytes,
    checkFraming: createCheckFraming(server.limits),
    checkTarget: createCheckTarget(server.limits.urlBytes),
    clientAddress: createClientAddress(server.trustedProxies),
    peekAnonymous: (address: string) => whenKnown(limiter.peek(address), headersOf),
    matchRoute: createMatchRoute(table, config.unmatched),
    ...createCorsStages(config, table, parts.preflights),
    authenticate: createAuthenticate({
      keyRing,
      verifier,
      callerOf,
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
      forwarder: upstream.forwarder,
      upgrader: upstream.upgrader,
      lessee,
      log,
      metrics,
      bodyLimitBytes: server.limits.bodyBytes,
      responseTimeoutMs: config.upstream.timeouts.responseMs,
      host: config.upstream.host,
    }),
    /** Why a caller who was let in earlier would not be let in now. */
    unwelcome: (caller: Caller): OwnEnd | undefined => {
      const nowMs = Date.now()
      const { keyDigest } = caller
      const current = keyDigest === undefined ? verifier && caller : keyRing.findDigest(keyDigest)
      if (current === undefined) return 'revoked'
      if (nowMs >= current.expiresAtMs) return 'expired'
      return bans.check(caller.keyId, nowMs) && 'banned'
    },
  })
}

const termsOf = ({ server }: Config, upstream: object): Terms => ({
  minimumRateBytes: server.limits.minimumRateBytes,
  requestMs: server.timeouts.requestMs,
  upstream,
  hsts: server.hstsMs === undefined ? undefined : `max-age=${Math.floor(server.hstsMs / 1000)}`,
})

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
