/** Finds the callers of one configuration: by an API key's SHA-256 digest, as plain keys are never kept, or by what a proven token says. */
import { hash } from 'node:crypto'
import type { Clients, PlanConfig } from '../../config/config.ts'
import { keepLatest } from '../../state/memory/recency-table.ts'
import { createCaller, type Caller } from '../rules/credentials.ts'
import type { TokenStatement } from '../rules/token-claims.ts'

export type KeyRing = ReturnType<typeof createKeyRing>

/** Callers that are kept ready; others are made anew, at some microseconds each. */
const KEPT_CALLERS = 65_536

/**
 * The ring of all configured keys. isStructured: see createCaller. used: digests of keys used since the start, whatever
 * configuration they were in; it outlives the ring and is bounded, the oldest go first.
 *
 * A look-up may take longer for a digest that shares a prefix with a stored one. That gives an attacker nothing
 * of use: to steer the digest he would have to invert SHA-256, and knowing a digest is not knowing the key.
 */
export function createKeyRing(
  clients: Pick<Clients, 'keyByDigest'>,
  used: Map<string, true>,
  isStructured: boolean,
) {
  const kept = new Map<number, { readonly digest: string; readonly caller: Caller }>()
  const findDigest = (digest: string): Caller | undefined => {
    const known = kept.get(numberOf(digest))
    return known?.digest === digest ? known.caller : make(digest)
  }
  const make = (keyDigest: string): Caller | undefined => {
    const owned = clients.keyByDigest(keyDigest)
    if (owned === undefined) return undefined
    const caller = createCaller(owned.client, owned.key, isStructured)
    if (kept.size >= KEPT_CALLERS) kept.clear()
    kept.set(numberOf(keyDigest), { digest: keyDigest, caller })
    keepLatest(used, keyDigest, true, KEPT_CALLERS)
    return caller
  }
  return {
    /** The caller whose key it is, even if it has expired; undefined for an unknown key. 'revoked': it was used here, but is not configured any more. */
    find: (token: string): Caller | 'revoked' | undefined => {
      // Measured: hex, base64 and latin1 digests cost the same 0.3 us, a Buffer twice that; hex is what the configuration holds.
      const digest = hash('sha256', token, 'hex')
      return findDigest(digest) ?? (used.has(digest) ? 'revoked' : undefined)
    },
    findDigest,
  }
}

/** The first eight hex digits as a number, which is a faster key of a Map: a new string V8 looks for in its table of all strings first. */
function numberOf(digest: string): number {
  let number = 0
  for (let at = 0; at < 8; at++) {
    const code = digest.charCodeAt(at)
    number = (number << 4) | (code > 0x39 ? code - 0x57 : code - 0x30)
  }
  return number
}

/** How one configuration treats the senders of tokens. Made: what the statement of a token becomes. */
export interface TokenPolicy<Made = Caller> {
  /** undefined: there is no plan with limits. */
  readonly callerOf: (statement: TokenStatement) => Made | undefined
  /** Whether the address has no room left for requests without a valid credential. */
  isOverLimit(address: string): boolean | Promise<boolean>
}

/**
 * Its function returns the same caller for the same statement. A token whose client is configured gets that client's plan, limits and
 * quota. isStructured: see createCaller.
 */
export function createTokenCallers(
  { clients, plans }: { clients: Pick<Clients, 'get'>; plans: ReadonlyMap<string, PlanConfig> },
  isStructured: boolean,
): TokenPolicy['callerOf'] {
  const made = new WeakMap<TokenStatement, Caller>()
  const make = ({ clientId: id, plan = '', expiresAtMs }: TokenStatement): Caller | undefined => {
    const planned = plans.get(plan)
    // A custom plan has no limits of its own, so only configured clients can be on it.
    const other = planned?.limits && { ...planned, id, plan, limits: planned.limits }
    const client = clients.get(id) ?? other
    return client && createCaller(client, { id: `jwt:${id}`, expiresAtMs }, isStructured)
  }
  return (statement) => {
    const caller = made.get(statement) ?? make(statement)
    if (caller !== undefined) made.set(statement, caller)
    return caller
  }
}
