/** Readers of addresses: listeners, trusted peers, backends, stores, links and the base path. */
import { isIP, isIPv4, isIPv6 } from 'node:net'
import type { ListenAddress } from './config.ts'
import type { Reader } from './scalars.ts'

const hostName =
  /^(?=.{1,253}$)[A-Za-z0-9](?:[A-Za-z0-9-]{0,62})(?:\.[A-Za-z0-9][A-Za-z0-9-]{0,62})*$/

/** Whether only this machine can reach the host: 127.0.0.0/8, ::1 or localhost. Brackets are allowed. */
export const isLoopback = (host: string): boolean => {
  const bare = host.replace(/^\[(.*)\]$/, '$1').toLowerCase()
  return bare === 'localhost' || bare === '::1' || (isIPv4(bare) && bare.startsWith('127.'))
}

/** Canonical text of an IPv6 address (RFC 5952), so that one address has one spelling. */
const canonicalIPv6 = (address: string): string =>
  new URL(`http://[${address}]`).hostname.slice(1, -1)

const readHost = (text: string): string | undefined => {
  if (text.startsWith('[') && text.endsWith(']')) {
    const address = text.slice(1, -1)
    return isIPv6(address) && !address.includes('%') ? canonicalIPv6(address) : undefined
  }
  // A name whose last label is a number would be a malformed IPv4 address.
  if (isIPv4(text)) return text
  return hostName.test(text) && !/(?:^|\.)\d+$/.test(text) ? text.toLowerCase() : undefined
}

/** As in a Host header, without the port. */
export const host: Reader<string> = (text) => {
  const value = readHost(text)
  return value === undefined
    ? { fault: 'is not a host; write a name or an address without a port, such as [fd00::1]' }
    : { value }
}

/** HOST:PORT of a server to connect to; undefined for anything else. */
export const parseHostPort = (
  text: string,
): { readonly host: string; readonly port: number } | undefined => {
  const [, host = '', digits = ''] = /^(.*):([1-9][0-9]{0,4})$/.exec(text) ?? []
  const readableHost = readHost(host)
  return readableHost === undefined || Number(digits) > 65_535
    ? undefined
    : { host: readableHost, port: Number(digits) }
}

export const listenAddress: Reader<ListenAddress> = (text) => {
  const [, host = '', digits = ''] = /^(.*):(0|[1-9][0-9]{0,4})$/.exec(text) ?? []
  const readableHost = readHost(host)
  const port = Number(digits)
  if (readableHost === undefined || digits === '' || port > 65_535) {
    return {
      fault: 'is not HOST:PORT; write 127.0.0.1:8080, [::1]:8080 or 0.0.0.0:8080 (every interface)',
    }
  }
  return { value: { host: readableHost, port } }
}

/** `/` is the empty base path. */
export const basePath: Reader<string> = (text) => {
  if (text === '/') return { value: '' }
  const segments = text.split('/').slice(1)
  const plain = segments.every((segment) => /^(?!\.{1,2}$)[A-Za-z0-9._~-]+$/.test(segment))
  return text.startsWith('/') && plain && text.length <= 256
    ? { value: text }
    : { fault: 'is not a base path; write one such as /v1, without a final "/", or / for the root' }
}

/** An address, or a network such as 10.0.0.0/8. */
export const network: Reader<string> = (text) => {
  const [address = '', prefix, ...rest] = text.split('/')
  const bits = isIP(address) === 4 ? 32 : 128
  const valid =
    isIP(address) !== 0 &&
    !address.includes('%') &&
    rest.length === 0 &&
    (prefix === undefined || (/^(0|[1-9][0-9]{0,2})$/.test(prefix) && Number(prefix) <= bits))
  return valid
    ? { value: text }
    : { fault: 'is not an address or network; write 10.1.2.3, 10.0.0.0/8 or fd00::/8' }
}

/** Visible ASCII only: the URL parser would silently drop tabs and line breaks, and turn backslashes round. */
const parseUrl = (text: string): URL | undefined =>
  /^[!-[\]-~]+$/.test(text) && URL.canParse(text) ? new URL(text) : undefined

const hasCredentials = (url: URL): boolean => url.username !== '' || url.password !== ''

/** An http or https origin; the value has no final slash. */
export const origin: Reader<string> = (text) => {
  const url = parseUrl(text)
  const valid =
    url !== undefined &&
    /^https?:\/\/[^/?#@]+\/?$/i.test(text) &&
    !hasCredentials(url) &&
    url.port !== '0'
  return valid
    ? { value: url.origin }
    : {
        fault:
          'is not an origin; write http://HOST:PORT or https://HOST:PORT, without path, query or credentials',
      }
}

/** Keys decide who may pass, so they travel over https, or not beyond this machine. */
export const jwksUri: Reader<string> = (text) => {
  const url = parseUrl(text)
  const secure =
    url?.protocol === 'https:' || (url?.protocol === 'http:' && isLoopback(url.hostname))
  return url !== undefined && secure && !hasCredentials(url) && url.hash === ''
    ? { value: text }
    : {
        fault:
          'is not a safe key set address; write an https:// URL without credentials (http:// only for this machine)',
      }
}

/** Characters that would end a Link header's `<...>` early are left out (RFC 8288 section 3). */
const linkCharacters = /^[!#-;=?-[\]_a-z~]+$/

const isAbsoluteLink = (text: string): boolean => {
  const url = linkCharacters.test(text) && /^https?:\/\//.test(text) ? parseUrl(text) : undefined
  return url !== undefined && !hasCredentials(url)
}

export const absoluteLink: Reader<string> = (text) =>
  isAbsoluteLink(text)
    ? { value: text }
    : { fault: 'is not a link; write an absolute http:// or https:// URL' }

/** A path below the base path, or an absolute URL. */
export const successorLink: Reader<string> = (text) =>
  isAbsoluteLink(text) || (linkCharacters.test(text) && /^\/(?!\/)/.test(text))
    ? { value: text }
    : { fault: 'is not a link; write a path such as /pets?status=available, or an absolute URL' }
