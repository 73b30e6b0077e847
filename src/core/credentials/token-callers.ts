/** Finds the caller that a proven token names, by one configuration. */
import type { Clients, PlanConfig } from '../../config/config.ts'
import { createCaller, type Caller } from '../rules/credentials.ts'
import type { TokenStatement } from '../rules/token-claims.ts'

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
  const make = ({ clientId, plan: planName, expiresAtMs }: TokenStatement): Caller | undefined => {
    const keyId = `jwt:${clientId}`
    const client = clients.get(clientId)
    const planned = planName === undefined ? undefined : plans.get(planName)
    const plan = client?.plan ?? planned?.name
    // A custom plan has no limits of its own, so only configured clients can be on it.
    const limits = client?.limits ?? planned?.limits
    const concurrent = client?.concurrent ?? planned?.concurrent
    if (plan === undefined || limits === undefined || concurrent === undefined) return undefined
    const caller = { clientId, plan, keyId, limits, concurrent, expiresAtMs, keyDigest: undefined }
    return createCaller(caller, isStructured)
  }
  return (statement) => {
    const caller = made.get(statement) ?? make(statement)
    if (caller !== undefined) made.set(statement, caller)
    return caller
  }
}
