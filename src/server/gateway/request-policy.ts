/** Everything a configuration decides about a request, built in one call. Nothing in it changes: a new configuration is a new policy. */
import { createAnonymousLimiter } from '../../core/credentials/anonymous-limiter.ts'
import type { JwtVerifier } from '../../core/credentials/jwt-verifier.ts'
import { createKeyRing } from '../../core/credentials/key-ring.ts'
import { createTokenCallers } from '../../core/credentials/token-callers.ts'
import type { Config } from '../../config/config.ts'
import type { Policy, Terms } from '../../core/pipeline/exchange.ts'
import type { ForwardDeps } from '../../core/pipeline/forward.ts'
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
export type DecidingParts = Pick<
  Policy,
  'lessee' | 'tally' | 'timestamps' | 'epochMs' | 'bans' | 'turns' | 'load' | 'keyRing'
> &
  Pick<LastingParts, 'addresses'> &
  Partial<Pick<LastingParts, 'shadow'>>

/** verifier: undefined: tokens are not accepted. */
export function createRequestPolicy(
  config: Config,
  parts: LastingParts,
  { upstream, verifier }: { upstream: Upstream; verifier: JwtVerifier | undefined },
) {
  const { lessee, tally, timestamps, bans, log, metrics, epochMs } = parts
  const keyRing = createKeyRing(
    config.clients,
    parts.usedKeys,
    config.server.structuredQuotaHeaders,
  )
  const forwarding: ForwardDeps = {
    forwarder: upstream.forwarder,
    upgrades: upstream.upgrades,
    lessee,
    tally,
    timestamps,
    log,
    metrics,
    bodyLimitBytes: config.server.limits.bodyBytes,
    responseTimeoutMs: config.upstream.timeouts.responseMs,
    host: config.upstream.host,
  }
  return Object.freeze({
    ...createPolicy(config, { ...parts, keyRing }, { upstream, verifier }),
    forwarding,
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

/** Builds what decides a request, without what takes it to a backend. upstream: see Terms. */
export function createPolicy(
  config: Config,
  { addresses, shadow, ...parts }: DecidingParts,
  { upstream, verifier }: { upstream: object; verifier: Policy['verifier'] },
): Policy {
  const { lessee, tally, timestamps, epochMs, bans, load, turns, keyRing } = parts
  const lasting = { lessee, tally, timestamps, epochMs, bans, load, turns, keyRing }
  const { server, clients, plans, routes, unmatched } = config
  const anonymous = createAnonymousLimiter({
    perMinute: config.anonymous.perMinute,
    counter: addresses,
    now: epochMs,
  })
  const isStructured = server.structuredQuotaHeaders
  const table = tables.get(config) ?? compileRoutes({ routes, basePath: server.basePath })
  tables.set(config, table)
  return {
    ...lasting,
    verifier,
    table,
    unmatched,
    anonymous,
    terms: termsOf(config, upstream),
    checkFraming: createCheckFraming(server.limits),
    checkTarget: createCheckTarget(server.limits.urlBytes),
    clientAddress: createClientAddress(server.trustedProxies),
    cors: config.cors && createCors(config.cors),
    tokenPolicy: {
      callerOf: createTokenCallers({ clients, plans, isStructured }),
      isOverLimit: (address) => whenKnown(anonymous.peek(address), ({ exceeded }) => exceeded),
    },
    anonymousHeaders: (view) => anonymousHeaders(view, isStructured),
    judgeByShadow: shadow?.judgeFor(plans),
    bufferedBytes: server.limits.bufferedBodyBytes,
    bodyLimitBytes: server.limits.bodyBytes,
  }
}

const termsOf = ({ server, revision }: Config, upstream: object): Terms => ({
  revision: revision.slice(0, 6),
  minimumRateBytes: server.limits.minimumRateBytes,
  requestMs: server.timeouts.requestMs,
  upstream,
  hsts: server.hstsMs === undefined ? undefined : `max-age=${Math.floor(server.hstsMs / 1000)}`,
})
