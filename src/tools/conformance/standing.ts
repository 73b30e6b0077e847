/** Reads the state of the caller's windows from any of the rate limit fields. */
import { perWindow, type LimitKey, type WindowName } from '../../config/time.ts'
import { parseList } from './structured-fields.ts'

type Headers = { readonly headers: readonly string[] }

export type Limits = Readonly<Record<LimitKey, number>>

/** State of one window, as far as the answer reports it. */
export interface WindowState {
  readonly limit?: number | undefined
  readonly remaining?: number | undefined
  /** Unix time in ms. */
  readonly resetMs?: number | undefined
}

export const headerValues = ({ headers }: Headers, name: string): string[] =>
  headers.filter((_, at) => at % 2 === 1 && headers[at - 1]?.toLowerCase() === name)

/** The first value of the field; `name` is in lower case. */
export const header = (answer: Headers, name: string): string | undefined =>
  headerValues(answer, name)[0]

/** Date is rounded down by up to a second; an end computed from it must not be too early. */
const DATE_GRAIN_MS = 1_000
const dateMs = (answer: Headers): number => Date.parse(header(answer, 'date') ?? '') + DATE_GRAIN_MS

const whole = (text = ''): number | undefined =>
  /^\d{1,12}$/.test(text) ? Number(text) : undefined

/** A smaller Reset is a number of seconds from now. */
const UNIX_TIME = 1_000_000_000

/** Reads X-RateLimit-Limit, -Remaining and -Reset, or the same without the X; they describe one window. */
export function xRateLimit(answer: Headers): WindowState & { readonly isDelta: boolean } {
  const field = (name: string): number | undefined =>
    whole(header(answer, `x-ratelimit-${name}`) ?? header(answer, `ratelimit-${name}`))
  const reset = field('reset')
  const isDelta = reset !== undefined && reset < UNIX_TIME
  const reported = { limit: field('limit'), remaining: field('remaining'), isDelta }
  if (reset === undefined || (isDelta && Number.isNaN(dateMs(answer)))) return reported
  return { ...reported, resetMs: (isDelta ? dateMs(answer) : 0) + reset * 1_000 }
}

const FIELDS = [
  ['ratelimit-policy', 'q', 'w'],
  ['ratelimit', 'r', 't'],
] as const
type Fields = Map<string, Partial<Record<'q' | 'w' | 'r' | 't', number>>>

/** Reads the windows by name: q and w of RateLimit-Policy, r and t of RateLimit. undefined: neither field is sent; text: what is wrong with them. */
export function rateLimit(answer: Headers): Fields | string | undefined {
  const windows: Fields = new Map()
  for (const [name, needed, more] of FIELDS) {
    const text = headerValues(answer, name).join(', ')
    const items = text === '' ? [] : parseList(text)
    if (items === undefined) return `no list of RFC 9651: ${text}`
    for (const { value, parameters } of items) {
      const window = windows.get(String(value)) ?? {}
      windows.set(String(value), window)
      for (const key of [needed, more]) {
        const number = parameters.get(key)
        if (key === more && number === undefined) continue
        if (typeof number !== 'number' || number < 0) return `${key} is no count: ${text}`
        window[key] = number
      }
      if (window.q === undefined) return `no policy has this name: ${text}`
    }
  }
  return windows.size === 0 ? undefined : windows
}

const byName = perWindow((window) => window)

/** Reads one of the windows from whichever fields describe it. */
export function windowOf(answer: Headers, window: WindowName, limits: Limits): WindowState {
  const { limit, lengthMs } = byName[window]
  const x = xRateLimit(answer)
  if (x.limit === limits[limit]) return x
  const fields = rateLimit(answer)
  if (typeof fields === 'object')
    for (const { q, r, w, t = NaN } of fields.values()) {
      const resetMs = dateMs(answer) + t * 1_000
      if (w === lengthMs / 1_000)
        return { limit: q, remaining: r, resetMs: Number.isNaN(resetMs) ? undefined : resetMs }
    }
  return {}
}

/** Reads Retry-After in seconds (RFC 9110 section 10.2.3). undefined: it is not sent; text: the value has neither form. */
export function retryAfter(answer: Headers): number | string | undefined {
  const text = header(answer, 'retry-after')
  const atMs = imfDate(text ?? '')
  return (
    whole(text) ?? (atMs === undefined ? text : (atMs - dateMs(answer) + DATE_GRAIN_MS) / 1_000)
  )
}

/** Parses an IMF-fixdate (RFC 9110 section 5.6.7) as Unix time in ms. undefined: it is none. */
export function imfDate(text: string): number | undefined {
  const ms = Date.parse(text)
  return !Number.isNaN(ms) && new Date(ms).toUTCString() === text ? ms : undefined
}
