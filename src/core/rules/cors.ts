/** Lets pages of certain origins read answers, refusals included (Fetch 3.3 "CORS protocol"). */
import type { CorsConfig } from '../../config/config.ts'

/** Fields that a page needs to obey a 429 and to notice that an operation is deprecated. */
const EXPOSED =
  'X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, RateLimit, RateLimit-Policy, Retry-After, X-Request-Id, Deprecation, Sunset, Link, X-API-Stability'

/** Request fields on which the answer to a preflight depends, as caches have to know. */
const PREFLIGHT_VARY = 'Origin, Access-Control-Request-Method, Access-Control-Request-Headers'

export type Cors = ReturnType<typeof createCors>

export function createCors({ origins, headers, maxAgeMs, credentials }: CorsConfig) {
  const own = credentials ? ['Access-Control-Allow-Credentials', 'true'] : []
  const granted = (origin: string) => ['Access-Control-Allow-Origin', origin, ...own]
  const exposed = ['Access-Control-Expose-Headers', EXPOSED, ...FOREIGN]
  // Made once, since all requests of an origin get the same fields.
  const known = new Map(origins.map((origin) => [origin, [...granted(origin), ...exposed]]))
  const open = known.get('*')
  return {
    /** Header fields of every answer to a request with this Origin, flat. undefined: the request has none. */
    answerHeaders: (origin: string | undefined): readonly string[] =>
      origin === undefined ? FOREIGN : (open ?? known.get(origin) ?? FOREIGN),
    /** Header fields of the answer to a preflight, flat. methods: those of the path, as Allow lists them. */
    preflightHeaders: (origin: string, methods: string): string[] => {
      if (open === undefined && !known.has(origin)) return ['Vary', PREFLIGHT_VARY]
      const fields = granted(open === undefined ? origin : '*')
      if (methods !== '') fields.push('Access-Control-Allow-Methods', methods)
      if (headers.length > 0) fields.push('Access-Control-Allow-Headers', headers.join(', '))
      fields.push('Access-Control-Max-Age', String(Math.floor(maxAgeMs / 1000)))
      fields.push('Vary', PREFLIGHT_VARY)
      return fields
    },
  }
}

/** A cache must not give this answer to a page of an allowed origin. */
const FOREIGN: readonly string[] = ['Vary', 'Origin']
