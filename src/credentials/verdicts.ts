/** What a verifier may say of a token: whose it is, or one of these refusals. Causes are for the log alone. */
import type { Caller } from '../rules/credentials.ts'
import { refuse, type Refusal } from '../rules/refusals.ts'

export type Verdict = Caller | Refusal

/** Why nobody can tell whether a token is valid: no key set has come yet, or too many tokens are being checked. */
export type UnavailableReason = 'no_key_set' | 'busy'

export const unavailable: Readonly<Record<UnavailableReason, Refusal>> = {
  no_key_set: refuse('service_unavailable', {
    cause: 'no key set of the token issuer has come yet',
    retryAfterSeconds: 5,
  }),
  busy: refuse('service_unavailable', {
    cause: 'too many tokens are being checked',
    retryAfterSeconds: 1,
  }),
}
const invalid = (cause: string): Refusal => refuse('invalid_api_key', { cause })
export const BAD_CLAIMS = invalid(
  'the token: its form, algorithm, issuer, audience, times or client',
)
export const NO_PLAN = invalid('the token: no plan with limits')
export const UNKNOWN_KEY = invalid('the token: the issuer has no such key')
export const BAD_SIGNATURE = invalid('the token: its signature')
