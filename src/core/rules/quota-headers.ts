/** Tells a client where it stands: X-RateLimit-* for the window that counts, RateLimit and RateLimit-Policy for all. */
import type { Limits } from '../../config/config.ts'
import type { QuotaView, WindowView } from '../../state/quota.ts'

/** RateLimit-Policy of a client (draft-ietf-httpapi-ratelimit-headers): quota and length in seconds of each window. */
export function policyHeader({ perMinute, perDay }: Limits): string {
  return `${minutePolicy(perMinute)}, "day";q=${perDay};w=86400`
}

function minutePolicy(perMinute: number): string {
  return `"minute";q=${perMinute};w=60`
}

/** Header fields, flat, a fresh array. policy: of the same client, from policyHeader; undefined leaves the structured pair out. */
export function quotaHeaders(view: QuotaView, policy: string | undefined): string[] {
  const rateLimit = policy === undefined ? undefined : standings(view)
  return fields({ speaking: refusesFirst(view), rateLimit, policy })
}

/** For a 429: window is the exhausted one with the longest wait, which has nothing left whatever the view says. */
export function refusedHeaders(
  view: QuotaView,
  window: 'minute' | 'day',
  policy: string | undefined,
): string[] {
  const speaking = { ...view[window], remaining: 0 }
  const rateLimit = standings({ ...view, [window]: speaking })
  return fields({ speaking, rateLimit, policy })
}

/** Whether both are told in the same words. */
export function isSameStanding(one: QuotaView | undefined, other: QuotaView | undefined): boolean {
  if (one === undefined || other === undefined) return one === other
  return isSameWindow(one.minute, other.minute) && isSameWindow(one.day, other.day)
}

function isSameWindow(one: WindowView, other: WindowView): boolean {
  return (
    one.remaining === other.remaining &&
    one.resetAfterSeconds === other.resetAfterSeconds &&
    one.resetAtSeconds === other.resetAtSeconds &&
    one.limit === other.limit
  )
}

/** For a caller without a valid credential, who has one window only. isStructured: with RateLimit and RateLimit-Policy. */
export function anonymousHeaders(minute: WindowView, isStructured: boolean): string[] {
  return fields({
    speaking: minute,
    rateLimit: standing('minute', minute),
    policy: isStructured ? minutePolicy(minute.limit) : undefined,
  })
}

export interface BanStanding {
  readonly limits: Limits
  readonly policy: string | undefined
  /** Unix time at which the ban ends. */
  readonly endsAtSeconds: number
  /** Where the client stands, if that is known. */
  readonly view: QuotaView | undefined
}

/** For a banned key: X-RateLimit-* say when there is something to be had; RateLimit tells what its windows hold. */
export function banHeaders({
  limits,
  policy,
  endsAtSeconds: resetAtSeconds,
  view,
}: BanStanding): string[] {
  const ban = { limit: limits.perMinute, remaining: 0, resetAtSeconds }
  const window = view && usedUp(view)
  const speaking = window !== undefined && window.resetAtSeconds > resetAtSeconds ? window : ban
  return fields({ speaking, rateLimit: view && standings(view), policy })
}

/** Of the windows that have nothing left the one that stays longest. */
export function usedUp({ minute, day }: QuotaView): WindowView | undefined {
  if (day.remaining === 0) return day
  return minute.remaining === 0 ? minute : undefined
}

/** The window with the least remaining; on a tie the one that stays longer. */
function refusesFirst({ minute, day }: QuotaView): WindowView {
  if (minute.remaining !== day.remaining) return minute.remaining < day.remaining ? minute : day
  return minute.resetAtSeconds > day.resetAtSeconds ? minute : day
}

function standings({ minute, day }: QuotaView): string {
  return `${standing('minute', minute)}, ${standing('day', day)}`
}

function standing(
  name: 'minute' | 'day',
  { remaining, resetAfterSeconds }: Pick<WindowView, 'remaining' | 'resetAfterSeconds'>,
): string {
  return `"${name}";r=${remaining};t=${resetAfterSeconds}`
}

interface Telling {
  /** The window that X-RateLimit-* speak of. */
  readonly speaking: Pick<WindowView, 'limit' | 'remaining' | 'resetAtSeconds'>
  /** undefined: not known, so left out. */
  readonly rateLimit: string | undefined
  readonly policy: string | undefined
}

function fields({ speaking, rateLimit, policy }: Telling): string[] {
  const headers = [
    'X-RateLimit-Limit',
    String(speaking.limit),
    'X-RateLimit-Remaining',
    String(speaking.remaining),
    'X-RateLimit-Reset',
    String(speaking.resetAtSeconds),
  ]
  if (policy === undefined) return headers
  if (rateLimit === undefined) headers.push('RateLimit-Policy', policy)
  else headers.push('RateLimit-Policy', policy, 'RateLimit', rateLimit)
  return headers
}
