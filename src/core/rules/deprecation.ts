/** Withdraws a deprecated operation in steps: announced in header fields, switched off at times for some clients (a brownout), and gone in the end. */
import type { Config, RouteConfig } from '../../config/config.ts'
import { MINUTE_MS } from '../../config/time.ts'

type Deprecated = NonNullable<RouteConfig['deprecated']>
type Brownout = Deprecated['brownouts'][number]

/** The part of a deprecation that refuses requests. */
export interface Withdrawal {
  /** Unix time in ms from which the operation is gone; undefined: it stays. */
  readonly goneMs: number | undefined
  /** Brownouts in order of time; no two overlap. */
  readonly brownouts: readonly Brownout[]
}

/** undefined: nothing is ever refused. */
export function withdrawalOf(deprecated: Deprecated): Withdrawal | undefined {
  const { sunsetMs, afterSunset, brownouts } = deprecated
  const goneMs = afterSunset === 'gone' ? sunsetMs : undefined
  if (goneMs === undefined && brownouts.length === 0) return undefined
  return { goneMs, brownouts: brownouts.toSorted((one, other) => one.fromMs - other.fromMs) }
}

/** The stage at the Unix time nowMs, whoever the client is. */
export function stageOf(
  { goneMs, brownouts }: Withdrawal,
  nowMs: number,
): 'announce' | 'brownout' | 'gone' {
  if (goneMs !== undefined && nowMs >= goneMs) return 'gone'
  return runningAt(brownouts, nowMs) === undefined ? 'announce' : 'brownout'
}

/**
 * Unix time in ms from which the client is let through: nowMs if it is now, Infinity if it never is again.
 * A brownout is decided for each minute anew.
 */
export function passesFromMs(
  { goneMs, brownouts }: Withdrawal,
  clientId: string,
  nowMs: number,
): number {
  if (goneMs !== undefined && nowMs >= goneMs) return Infinity
  let atMs = nowMs
  for (;;) {
    const running = runningAt(brownouts, atMs)
    if (running === undefined || !isChosen(clientId, atMs, running.share)) return atMs
    const nextMinuteMs = (Math.floor(atMs / MINUTE_MS) + 1) * MINUTE_MS
    atMs = running.share === 1 ? running.toMs : Math.min(nextMinuteMs, running.toMs)
  }
}

const runningAt = (brownouts: readonly Brownout[], atMs: number): Brownout | undefined =>
  brownouts.find(({ fromMs, toMs }) => fromMs <= atMs && atMs < toMs)

/** Whether a brownout refuses the client in this minute. The share holds over many minutes, and over many clients in one minute. */
export function isChosen(clientId: string, atMs: number, share: number): boolean {
  return hash(clientId, Math.floor(atMs / MINUTE_MS)) < share * 2 ** 32
}

/** A hash of 32 bits: FNV-1a, then the last steps of MurmurHash3, without which ids that differ in their last letter get similar values. */
function hash(text: string, minute: number): number {
  let bits = Math.imul(minute, 0x9e3779b1) ^ 0x811c9dc5
  for (let at = 0; at < text.length; at++) bits = Math.imul(bits ^ text.charCodeAt(at), 0x01000193)
  bits = Math.imul(bits ^ (bits >>> 16), 0x85ebca6b)
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2ae35)
  return (bits ^ (bits >>> 16)) >>> 0
}

/** Header fields of every answer on the route, flat; computed once per route. basePath: '' for the root. */
export function lifecycleHeaders(
  { deprecated, stability }: Pick<RouteConfig, 'deprecated' | 'stability'>,
  { basePath }: Pick<Config['server'], 'basePath'>,
): readonly string[] {
  const headers: string[] = []
  if (deprecated !== undefined) {
    const { sinceMs, sunsetMs, successor, link } = deprecated
    // RFC 9745 2.1: a structured-field date. RFC 8594 3: an HTTP-date, whose IMF-fixdate form is that of toUTCString.
    headers.push('Deprecation', `@${Math.floor(sinceMs / 1000)}`)
    if (sunsetMs !== undefined) headers.push('Sunset', new Date(sunsetMs).toUTCString())
    if (successor !== undefined) {
      const address = successor.startsWith('/') ? basePath + successor : successor
      headers.push('Link', linkValue(address, 'successor-version'))
    }
    if (link !== undefined) headers.push('Link', linkValue(link, 'deprecation'))
  }
  if (stability !== undefined) headers.push('X-API-Stability', stability)
  return headers
}

/** Writes a Link (RFC 8288 3). Characters that would end the angle brackets early, or are no visible ASCII, are encoded. */
function linkValue(address: string, relation: string): string {
  return `<${address.replace(/[^!#-;=?-~]/gu, encodeURIComponent)}>; rel="${relation}"`
}
