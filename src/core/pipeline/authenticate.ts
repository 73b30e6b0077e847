/** Turns the Authorization header into a caller; requests without a valid credential are counted by address. */
import { NO_PLAN, UNCHECKED } from '../credentials/jwt-verifier.ts'
import type { Exchange, Policy } from './exchange.ts'
import { OVERLOADED } from '../rules/overload.ts'
import { isRefusal, refuse, type Refusal } from '../rules/refusals.ts'
import { isJwtForm, readBearer, type Caller } from '../rules/credentials.ts'
import type { TokenStatement } from '../rules/token-claims.ts'
import { whenKnown } from '../rules/when-known.ts'

export function authenticate(
  policy: Policy,
  exchange: Exchange,
): Caller | Refusal | Promise<Caller | Refusal> {
  const { verifier, tokenPolicy } = policy
  const { authorization, authorizationCount } = exchange.framing
  const token = readBearer(authorization, authorizationCount)
  if (isRefusal(token)) return refuseAnonymous(policy, exchange, token)
  const nowMs = policy.epochMs()
  const key = policy.keyRing.find(token)
  if (key === 'revoked') return refuseAnonymous(policy, exchange, REVOKED)
  if (key !== undefined) {
    if (nowMs < key.expiresAtMs) return (exchange.caller = key)
    exchange.refusedCaller = key
    return refuseAnonymous(policy, exchange, EXPIRED)
  }
  if (verifier === undefined || !isJwtForm(token)) return refuseAnonymous(policy, exchange, INVALID)
  const asked = verifier.verify(token, nowMs, tokenPolicy, exchange.sender.key)
  return whenKnown<TokenStatement | Refusal, Caller | Refusal>(asked, (said) => {
    const verdict = isRefusal(said) ? said : (tokenPolicy.callerOf(said) ?? NO_PLAN)
    if (isRefusal(verdict)) return refuseAnonymous(policy, exchange, verdict)
    return (exchange.caller = verdict)
  })
}

const INVALID = refuse('invalid_api_key')
/** The sender gets the same answer as for INVALID: the cause is for the log. */
const EXPIRED = refuse('invalid_api_key', { cause: 'expired' })
const REVOKED = refuse('invalid_api_key', { cause: 'revoked' })

/** Returns the quota header fields of an address whose caller was not authenticated, flat; charges nothing. */
export function peekAnonymous(
  { anonymous, anonymousHeaders }: Policy,
  addressKey: string,
): string[] | Promise<string[]> {
  return whenKnown(anonymous.peek(addressKey), anonymousHeaders)
}

/**
 * Counts the request against its address: 401 while there is room, 429 above the limit.
 * A request whose token could not be checked is not charged, as it may be valid. While the event loop is late none is charged, and
 * all are refused as overloaded. A token left unchecked because its address is over the limit is answered 429 like others of it.
 */
function refuseAnonymous(
  { anonymous, anonymousHeaders, load }: Policy,
  exchange: Exchange,
  refusal: Refusal,
): Refusal | Promise<Refusal> {
  const isShed = load.shed !== 'nothing'
  const isFree = isShed || refusal.code === 'service_unavailable'
  const { key } = exchange.sender
  const looked = isFree ? anonymous.peek(key) : anonymous.count(key)
  return whenKnown(looked, (view) => {
    exchange.quotaHeaders = anonymousHeaders(view)
    if (isShed) return OVERLOADED
    if (!view.exceeded || (isFree && refusal !== UNCHECKED)) return refusal
    return refuse('rate_limit_exceeded', {
      cause: refusal.cause ?? refusal.code,
      detail: `Limit: ${view.limit} a minute without a valid API key. Retry in ${view.resetAfterSeconds} s.`,
      retryAfterSeconds: view.resetAfterSeconds,
      limited: { window: 'minute', limit: view.limit },
    })
  })
}
