/** Writes a host as a URL has it. */

/** RFC 3986 3.2.2: an IPv6 address stands in brackets. */
export function hostForUrl(host: string): string {
  return host.includes(':') ? `[${host}]` : host
}
