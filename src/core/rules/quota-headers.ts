/** Writes a client's quota into header fields: X-RateLimit-* for the window that refuses first, RateLimit and RateLimit-Policy for all. */
import type { Limits } from '../../config/config.ts'
import { ofWindow, windowNames, windows } from '../../config/time.ts'
import type { FixedWindow, WindowName } from '../../config/time.ts'
import type { QuotaView, WindowView } from '../quota/decision.ts'
import type { Caller } from './credentials.ts'

/** RateLimit-Policy of a client (draft-ietf-httpapi-ratelimit-headers): quota and length in seconds of each window. */
export const policyHeader = (limits: Limits): string =>
  windows.map((window) => policyOf(window, limits[window.limit])).join(', ')

const policyOf = ({ name, lengthMs }: FixedWindow, quota: number): string =>
  `"${name}";q=${quota};w=${lengthMs / 1000}`

/** Returns a fresh flat array. policy: the client's policyHeader; undefined leaves RateLimit and RateLimit-Policy out. */
export function quotaHeaders(view: QuotaView, policy: string | undefined): string[] {
  const rateLimit = policy === undefined ? undefined : standings(view)
  return fields(refusesFirst(view), rateLimit, policy)
}

/** Builds the fields of a 429. window: the exhausted one with the longest wait; it counts as empty whatever the view says. */
export function refusedHeaders(
  view: QuotaView,
  window: WindowName,
  policy: string | undefined,
): string[] {
  const shown = { ...view[window], remaining: 0 }
  return fields(shown, standings({ ...view, [window]: shown }), policy)
}

/** Whether both give the same header fields. */
export function isSameStanding(one: QuotaView | undefined, other: QuotaView | undefined): boolean {
  if (one === undefined || other === undefined) return one === other
  for (const name of windowNames)
    if (!isSameWindow(ofWindow(one, name), ofWindow(other, name))) return false
  return true
}

const isSameWindow = (one: WindowView, other: WindowView): boolean =>
  one.remaining === other.remaining &&
  one.resetAfterSeconds === other.resetAfterSeconds &&
  one.resetAtSeconds === other.resetAtSeconds &&
  one.limit === other.limit

/** Builds the fields for a caller without a valid credential, who has only a minute window. isStructured: with RateLimit and RateLimit-Policy. */
export function anonymousHeaders(minute: WindowView, isStructured: boolean): string[] {
  const policy = isStructured ? policyOf(windows[0], minute.limit) : undefined
  return fields(minute, `"minute";r=${minute.remaining};t=${minute.resetAfterSeconds}`, policy)
}

/**
 * Builds the fields for a banned key: X-RateLimit-* say when requests can succeed again; RateLimit says what the windows hold.
 * resetAtSeconds: Unix time at which the ban ends. view: undefined if it is not known.
 */
export function banHeaders(
  { limits, policy }: Pick<Caller, 'limits' | 'policy'>,
  resetAtSeconds: number,
  view: QuotaView | undefined,
): string[] {
  const ban = { limit: limits.perMinute, remaining: 0, resetAtSeconds }
  const window = view && usedUp(view)
  const shown = window !== undefined && window.resetAtSeconds > resetAtSeconds ? window : ban
  return fields(shown, view && standings(view), policy)
}

/** The exhausted window that ends last; undefined: none is exhausted. */
export function usedUp(view: QuotaView): WindowView | undefined {
  const name = windowNames.findLast((one) => view[one].remaining === 0)
  return name && view[name]
}

/** The window with the least remaining; on a tie the one that ends later. */
export function refusesFirst(view: QuotaView): WindowView {
  let first = view.minute
  for (const name of windowNames) {
    const window = ofWindow(view, name)
    const { remaining, resetAtSeconds } = window
    const isLater = remaining === first.remaining && resetAtSeconds >= first.resetAtSeconds
    if (remaining < first.remaining || isLater) first = window
  }
  return first
}

/** The parts of RateLimit are made for each answer, so that all but their numbers is made once. */
const parts = windowNames.map((name, at) => ({ name, start: `${at > 0 ? ', ' : ''}"${name}";r=` }))

function standings(view: QuotaView): string {
  let text = ''
  for (const { name, start } of parts) {
    const { remaining, resetAfterSeconds } = ofWindow(view, name)
    text += `${start}${remaining};t=${resetAfterSeconds}`
  }
  return text
}

/** shown: the window that X-RateLimit-* describe. rateLimit: undefined if it is not known. */
function fields(
  shown: Pick<WindowView, 'limit' | 'remaining' | 'resetAtSeconds'>,
  rateLimit: string | undefined,
  policy: string | undefined,
): string[] {
  const limit = String(shown.limit)
  const remaining = String(shown.remaining)
  const reset = String(shown.resetAtSeconds)
  if (policy !== undefined && rateLimit !== undefined)
    return [LIMIT, limit, REMAINING, remaining, RESET, reset, POLICY, policy, LEFT, rateLimit]
  const headers = [LIMIT, limit, REMAINING, remaining, RESET, reset]
  if (policy !== undefined) headers.push(POLICY, policy)
  return headers
}

const LIMIT = 'X-RateLimit-Limit'
const REMAINING = 'X-RateLimit-Remaining'
const RESET = 'X-RateLimit-Reset'
const POLICY = 'RateLimit-Policy'
const LEFT = 'RateLimit'
