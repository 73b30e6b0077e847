/** Refusals of tokens. Causes are for the log alone. */
import { refuse, type Refusal } from '../rules/refusals.ts'

/** Why a token cannot be checked: no key set has come yet, none has since it named an unknown key, or too many tokens are being checked. */
export type UnavailableReason = 'no_key_set' | 'unknown_key' | 'busy'

export const unavailable: Readonly<Record<UnavailableReason, Refusal>> = {
  no_key_set: refuse('service_unavailable', {
    cause: 'no key set of the token issuer has come yet',
    retryAfterSeconds: 5,
  }),
  unknown_key: refuse('service_unavailable', {
    cause: 'no key set has come since the token named an unknown key',
    retryAfterSeconds: 1,
  }),
  busy: refuse('service_unavailable', {
    cause: 'too many tokens are being checked',
    retryAfterSeconds: 1,
  }),
}
/** The token was not checked: its address is over the anonymous limit and beyond its share of checks. */
export const UNCHECKED = refuse('service_unavailable', {
  cause: 'the token: its address has used up its share of signature checks',
  retryAfterSeconds: 1,
})
const invalid = (cause: string): Refusal => refuse('invalid_api_key', { cause })
export const BAD_CLAIMS = invalid(
  'the token: its form, algorithm, issuer, audience, times or client',
)
export const NO_PLAN = invalid('the token: no plan with limits')
export const UNKNOWN_KEY = invalid('the token: the issuer has no such key')
export const BAD_SIGNATURE = invalid('the token: its signature')
