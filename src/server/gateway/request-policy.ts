/** Everything a configuration decides about a request, built in one call. Nothing in it changes: a new configuration is a new policy. */
import { createAnonymousLimiter } from '../../core/credentials/anonymous-limiter.ts'
import type { JwtVerifier } from '../../core/credentials/jwt-verifier.ts'
import { createKeyRing, createTokenCallers } from '../../core/credentials/callers.ts'
import type { Config } from '../../config/config.ts'
import type { Policy } from '../../core/pipeline/exchange.ts'
import { createCors } from '../../core/rules/cors.ts'
import { createClientAddress } from '../../core/rules/client-address.ts'
import { anonymousHeaders } from '../../core/rules/quota-headers.ts'
import { compileRoutes, type RouteTable } from '../../core/rules/routes.ts'
import type { Caller } from '../../core/rules/credentials.ts'
import type { OwnEnd } from '../../core/rules/websocket.ts'
import { whenKnown } from '../../core/rules/when-known.ts'
import type { LastingParts } from './lasting-parts.ts'
import type { Upstream } from './upstream.ts'

export type RequestPolicy = ReturnType<typeof createRequestPolicy>

/** Parts that a decision needs and that may outlive a configuration. */
type DecidingParts = Pick<
  Policy,
  'lessee' | 'tally' | 'timestamps' | 'epochMs' | 'bans' | 'turns' | 'load' | 'keyRing' | 'verifier'
> &
  Pick<LastingParts, 'addresses'> &
  Partial<Pick<LastingParts, 'shadow'>>

/** verifier: undefined: tokens are not accepted. */
export function createRequestPolicy(
  config: Config,
  parts: LastingParts,
  { upstream, verifier }: { upstream: Upstream; verifier: JwtVerifier | undefined },
) {
  const { clients, server } = config
  const keyRing = createKeyRing(clients, parts.usedKeys, server.structuredQuotaHeaders)
  return Object.freeze({
    ...createPolicy(config, { ...parts, keyRing, verifier }),
    carrier: upstream,
    /** Returns why a caller who was admitted earlier would be refused now. */
    unwelcome(caller: Caller): OwnEnd | undefined {
      const { keyDigest, keyId } = caller
      const current = keyDigest === undefined ? verifier && caller : keyRing.findDigest(keyDigest)
      if (current === undefined) return 'revoked'
      if (parts.epochMs() >= current.expiresAtMs) return 'expired'
      return parts.bans.running(keyId) && 'banned'
    },
  })
}

/** Thousands of routes take tens of ms to build, so explanations reuse the table of the serving policy. */
const tables = new WeakMap<Config, RouteTable>()

/** Builds what decides a request, without what takes it to a backend. */
export function createPolicy(config: Config, parts: DecidingParts): Policy {
  const { keyRing, verifier, load, bans, turns, epochMs, lessee, tally, timestamps } = parts
  const lasting = { keyRing, verifier, load, bans, turns, epochMs, lessee, tally, timestamps }
  const { server, plans, routes, unmatched } = config
  const { perMinute } = config.anonymous
  const anonymous = createAnonymousLimiter({ perMinute, counter: parts.addresses, now: epochMs })
  const { structuredQuotaHeaders: isStructured, hstsMs } = server
  const table = tables.get(config) ?? compileRoutes({ routes, basePath: server.basePath })
  tables.set(config, table)
  return {
    ...lasting,
    table,
    unmatched,
    anonymous,
    terms: {
      server,
      hsts: hstsMs === undefined ? undefined : `max-age=${Math.floor(hstsMs / 1000)}`,
      revision: config.revision.slice(0, 6),
    },
    clientAddress: createClientAddress(server.trustedProxies),
    cors: config.cors && createCors(config.cors),
    tokenPolicy: {
      callerOf: createTokenCallers(config, isStructured),
      isOverLimit: (address) => whenKnown(anonymous.peek(address), ({ exceeded }) => exceeded),
    },
    anonymousHeaders: (view) => anonymousHeaders(view, isStructured),
    judgeByShadow: parts.shadow?.judgeFor(plans),
  }
}
