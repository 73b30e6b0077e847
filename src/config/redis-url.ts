/** Addresses of Redis servers, as URLs or HOST:PORT, taken apart. */

export type RedisUrl = NonNullable<ReturnType<typeof parseRedisUrl>>

const DEFAULT_PORT = 6379

/** Decodes percent-encoding; undefined for a stray percent sign. */
const decoded = (text: string): string | undefined => {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}

/**
 * redis://[USER:PASSWORD@]HOST[:PORT][/DB], or rediss:// for TLS; undefined for anything else.
 * A query is refused: in other programs it overrides options of the client library. The host has no brackets, user and password
 * are percent-decoded; without a user it is the default one.
 */
export function parseRedisUrl(text: string) {
  // Visible ASCII only: the URL parser would silently drop tabs and line breaks.
  if (!/^rediss?:\/\/[!-[\]-~]+$/.test(text) || !URL.canParse(text)) return undefined
  const url = new URL(text)
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1')
  const [, db = '0'] = /^\/?(\d{1,5})?$/.exec(url.pathname) ?? [undefined, 'none']
  const username = decoded(url.username)
  const password = decoded(url.password)
  const isAddress = /^[A-Za-z0-9._:-]+$/.test(host) && url.port !== '0' && /^\d+$/.test(db)
  const isLogin = username !== undefined && password !== undefined && !(username && !password)
  if (!isAddress || !isLogin || /[?#]/.test(text)) return undefined
  return {
    host,
    port: url.port === '' ? DEFAULT_PORT : Number(url.port),
    db: Number(db),
    username: username || undefined,
    password: password || undefined,
    tls: url.protocol === 'rediss:',
  }
}

/** The fault of a text that parseRedisUrl refuses. */
export const redisUrlFault = (text: string): string =>
  /^rediss?:\/\/.*[/?#%\s].*@/.test(text)
    ? 'has a user or password that cannot be told from the rest; write @ as %40, # as %23, / as %2F, ? as %3F and % as %25, or give { url, username, password }'
    : 'is not a Redis URL; write redis://HOST:PORT or rediss://HOST:PORT (with /DB if wanted)'
