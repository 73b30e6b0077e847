/** Lets pages of certain origins read answers, refusals included (Fetch 3.3 "CORS protocol"). */
import type { CorsConfig } from '../../config/config.ts'

/** Fields that a page needs to obey a 429 and to notice that an operation is deprecated. */
const EXPOSED =
  'X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, RateLimit, RateLimit-Policy, Retry-After, X-Request-Id, Deprecation, Sunset, Link, X-API-Stability'

/** Request fields on which the answer to a preflight depends, as caches have to know. */
const PREFLIGHT_VARY = 'Origin, Access-Control-Request-Method, Access-Control-Request-Headers'

export type Cors = ReturnType<typeof createCors>

export function createCors({ origins, headers, maxAgeMs, credentials }: CorsConfig) {
  const allowed = new Set(origins)
  const isOpen = allowed.has('*')
  const grants = (origin: string): string[] => {
    if (!isOpen && !allowed.has(origin)) return []
    const granted = ['Access-Control-Allow-Origin', isOpen ? '*' : origin]
    if (credentials) granted.push('Access-Control-Allow-Credentials', 'true')
    return granted
  }
  const exposed = ['Access-Control-Expose-Headers', EXPOSED, ...FOREIGN]
  // Made once, since all requests of an origin get the same fields.
  const known = new Map(origins.map((origin) => [origin, [...grants(origin), ...exposed]]))
  const open = known.get('*')
  return {
    /** Header fields of every answer to a request with this Origin, flat. undefined: the request has none. */
    answerHeaders: (origin: string | undefined): readonly string[] =>
      origin === undefined ? FOREIGN : (open ?? known.get(origin) ?? FOREIGN),
    /** Header fields of the answer to a preflight, flat. methods: those of the path, as Allow lists them. */
    preflightHeaders: (origin: string, methods: string): string[] => {
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
