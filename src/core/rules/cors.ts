/** Lets pages of certain origins read answers, refusals included (Fetch 3.3 "CORS protocol"). */
import type { CorsConfig } from '../../config/config.ts'

/** What a page needs to obey a 429, and to be told that an operation goes. */
const EXPOSED = [
  'X-RateLimit-Limit',
  'X-RateLimit-Remaining',
  'X-RateLimit-Reset',
  'RateLimit',
  'RateLimit-Policy',
  'Retry-After',
  'X-Request-Id',
  'Deprecation',
  'Sunset',
  'Link',
  'X-API-Stability',
].join(', ')

/** What the asked origin and method decide, and caches have to know that they do. */
const PREFLIGHT_VARY = 'Origin, Access-Control-Request-Method, Access-Control-Request-Headers'

export interface Cors {
  /** Header fields of every answer to a request with this Origin, flat. undefined: it came from no page of another origin. */
  answerHeaders(origin: string | undefined): readonly string[]
  /** Those of the answer to a preflight instead. methods: what the path takes, as Allow lists it. */
  preflightHeaders(origin: string, methods: string): string[]
}

export function createCors({ origins, headers, maxAgeMs, credentials }: CorsConfig): Cors {
  const allowed = new Set(origins)
  const isOpen = allowed.has('*')
  const grants = (origin: string): string[] => {
    if (!isOpen && !allowed.has(origin)) return []
    const granted = ['Access-Control-Allow-Origin', isOpen ? '*' : origin]
    if (credentials) granted.push('Access-Control-Allow-Credentials', 'true')
    return granted
  }
  const withExposed = (granted: string[]): readonly string[] =>
    granted.length === 0
      ? FOREIGN
      : [...granted, 'Access-Control-Expose-Headers', EXPOSED, 'Vary', 'Origin']
  // Made once: a page's requests all have the same.
  const known = new Map(origins.map((origin) => [origin, withExposed(grants(origin))]))
  const open = known.get('*')
  return {
    answerHeaders: (origin) =>
      origin === undefined ? FOREIGN : (open ?? known.get(origin) ?? FOREIGN),
    preflightHeaders: (origin, methods) => {
      const granted = grants(origin)
      if (granted.length === 0) return ['Vary', PREFLIGHT_VARY]
      if (methods !== '') granted.push('Access-Control-Allow-Methods', methods)
      if (headers.length > 0) granted.push('Access-Control-Allow-Headers', headers.join(', '))
      granted.push('Access-Control-Max-Age', String(Math.floor(maxAgeMs / 1000)))
      granted.push('Vary', PREFLIGHT_VARY)
      return granted
    },
  }
}

/** A cache must not give this answer to a page of an allowed origin. */
const FOREIGN: readonly string[] = ['Vary', 'Origin']
