/** Says in header fields that a route is deprecated, when it goes, what replaces it, and how stable it is. */
import type { Config, RouteConfig } from '../../config/config.ts'

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
