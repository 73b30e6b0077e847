/** Everything a configuration decides about a request, built in one call. Nothing in it changes: a new configuration is a new policy. */
import {
  createAnonymousLimiter,
  type AnonymousView,
} from '../../core/credentials/anonymous-limiter.ts'
import type { JwtVerifier } from '../../core/credentials/jwt-verifier.ts'
import { createKeyRing, type KeyRing } from '../../core/credentials/key-ring.ts'
import { createTokenCallers } from '../../core/credentials/token-callers.ts'
import type { Config } from '../../config/config.ts'
import { createAuthenticate } from '../../core/pipeline/authenticate.ts'
import {
  createCheckBan,
  createCheckDeprecation,
  createShedLoad,
  type Lateness,
} from '../../core/pipeline/check-ban.ts'
import { createForward } from '../../core/pipeline/forward.ts'
import type { Terms } from '../../core/pipeline/exchange.ts'
import { createAnswerPreflight, createMatchRoute } from '../../core/pipeline/match-route.ts'
import { createReceiveBody } from '../../core/pipeline/receive-body.ts'
import { createTakeQuota, type Charges } from '../../core/pipeline/take-quota.ts'
import { createTakeTurn } from '../../core/pipeline/take-turn.ts'
import { createCors } from '../../core/rules/cors.ts'
import { createClientAddress } from '../../core/rules/client-address.ts'
import { createCheckFraming } from '../../core/rules/framing.ts'
import { anonymousHeaders } from '../../core/rules/quota-headers.ts'
import { compileRoutes, type RouteTable } from '../../core/rules/routes.ts'
import type { Caller } from '../../core/rules/credentials.ts'
import type { OwnEnd } from '../../core/rules/websocket.ts'
import { whenKnown } from '../../core/rules/when-known.ts'
import { createCheckTarget } from '../../core/rules/target.ts'
import type { LastingParts } from './lasting-parts.ts'
import type { Upstream } from './upstream.ts'

export type RequestPolicy = ReturnType<typeof createRequestPolicy>

/** Parts that outlive a configuration and that a decision needs. */
export type DecidingParts = Charges &
  Pick<LastingParts, 'epochMs' | 'bans' | 'addresses'> &
  Partial<Pick<LastingParts, 'shadow'>> & {
    readonly turns: Parameters<typeof createTakeTurn>[0]
    readonly load: Lateness
    readonly keyRing: Pick<KeyRing, 'find'>
  }

/** verifier: undefined: tokens are not accepted. */
export function createRequestPolicy(
  config: Config,
  parts: LastingParts,
  { upstream, verifier }: { upstream: Upstream; verifier: JwtVerifier | undefined },
) {
  const { lessee, tally, timestamps, bans, log, metrics, epochMs } = parts
  const { server, clients } = config
  const keyRing = createKeyRing(clients, parts.usedKeys, server.structuredQuotaHeaders)
  return Object.freeze({
    ...createDecidingStages(config, { ...parts, keyRing }, { upstream, verifier }),
    forward: createForward({
      forwarder: upstream.forwarder,
      upgrades: upstream.upgrades,
      lessee,
      tally,
      timestamps,
      log,
      metrics,
      bodyLimitBytes: server.limits.bodyBytes,
      responseTimeoutMs: config.upstream.timeouts.responseMs,
      host: config.upstream.host,
    }),
    /** Returns why a caller who was admitted earlier would be refused now. */
    unwelcome(caller: Caller): OwnEnd | undefined {
      const { keyDigest, keyId } = caller
      const current = keyDigest === undefined ? verifier && caller : keyRing.findDigest(keyDigest)
      if (current === undefined) return 'revoked'
      if (epochMs() >= current.expiresAtMs) return 'expired'
      return bans.running(keyId) && 'banned'
    },
  })
}

/** Thousands of routes take tens of ms to build, so explanations reuse the table of the serving policy. */
const tables = new WeakMap<Config, RouteTable>()

/** Builds all stages but the last, which takes a request to a backend. upstream: see Terms. */
export function createDecidingStages(
  config: Config,
  parts: DecidingParts,
  { upstream, verifier }: { upstream: object; verifier: Pick<JwtVerifier, 'verify'> | undefined },
) {
  const { lessee, tally, timestamps, epochMs, bans, load, keyRing } = parts
  const judgeByShadow = parts.shadow?.judgeFor(config.plans)
  const charges = { lessee, tally, timestamps }
  const { server, anonymous, clients, routes, unmatched } = config
  const limiter = createAnonymousLimiter({ ...anonymous, counter: parts.addresses, now: epochMs })
  const isStructured = server.structuredQuotaHeaders
  const headersOf = (view: AnonymousView): string[] => anonymousHeaders(view, isStructured)
  const table = tables.get(config) ?? compileRoutes({ routes, basePath: server.basePath })
  tables.set(config, table)
  const cors = config.cors && createCors(config.cors)
  return {
    ...charges,
    terms: termsOf(config, upstream),
    checkFraming: createCheckFraming(server.limits),
    checkTarget: createCheckTarget(server.limits.urlBytes),
    clientAddress: createClientAddress(server.trustedProxies),
    peekAnonymous: (address: string) => whenKnown(limiter.peek(address), headersOf),
    matchRoute: createMatchRoute(table, unmatched),
    cors,
    answerPreflight: cors && createAnswerPreflight({ cors, table, unmatched, load }),
    authenticate: createAuthenticate({
      keyRing,
      verifier,
      tokenPolicy: {
        callerOf: createTokenCallers({ clients, plans: config.plans, isStructured }),
        isOverLimit: (address) => whenKnown(limiter.peek(address), ({ exceeded }) => exceeded),
      },
      anonymous: limiter,
      anonymousHeaders: headersOf,
      load,
      epochMs,
    }),
    checkBan: createCheckBan(bans, charges),
    shedLoad: createShedLoad(load, lessee),
    checkDeprecation: createCheckDeprecation(epochMs),
    takeQuota: createTakeQuota(charges, bans, judgeByShadow),
    takeTurn: createTakeTurn(parts.turns),
    receiveBody: createReceiveBody({
      bufferedBytes: server.limits.bufferedBodyBytes,
      bodyLimitBytes: server.limits.bodyBytes,
    }),
  }
}

const termsOf = ({ server, revision }: Config, upstream: object): Terms => ({
  revision: revision.slice(0, 6),
  minimumRateBytes: server.limits.minimumRateBytes,
  requestMs: server.timeouts.requestMs,
  upstream,
  hsts: server.hstsMs === undefined ? undefined : `max-age=${Math.floor(server.hstsMs / 1000)}`,
})
