/** Converts the fields of an HTTP/2 request for the rules of HTTP/1.1. */

/** Separates pseudo-fields, turns :authority into Host and joins Cookie fields (RFC 9113 8.3.1, 8.2.3). A Host that differs stays as a second one, which is refused. rawHeaders: flat. */
export function http1Fields(rawHeaders: readonly string[]) {
  let method: string | undefined
  let scheme: string | undefined
  let authority: string | undefined
  let path: string | undefined
  const fields: string[] = []
  let cookieAt: number | undefined
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] ?? ''
    const value = rawHeaders[at + 1] ?? ''
    if (name === ':method') method = value
    else if (name === ':scheme') scheme = value
    else if (name === ':path') path = value
    else if (name === ':authority') fields.push('host', (authority = value))
    else if (name === 'cookie' && cookieAt !== undefined) fields[cookieAt] += `; ${value}`
    else if (name !== 'host' || value !== authority) {
      if (name === 'cookie') cookieAt = fields.length + 1
      fields.push(name, value)
    }
  }
  return { method, scheme, authority, path, fields }
}
