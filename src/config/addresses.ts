/** Leaves that hold addresses: listeners, trusted peers, backends, stores, links and the base path. */
import { isIP, isIPv4, isIPv6 } from 'node:net'
import { isLoopback } from './hosts.ts'
import { suggest } from './nearest.ts'
import { shaped, text } from './scalars.ts'

export interface HostPort {
  readonly host: string
  /** Port 0 of a listener asks for any free port. */
  readonly port: number
}

const hostName =
  /^(?=.{1,253}$)[A-Za-z0-9](?:[A-Za-z0-9-]{0,62})(?:\.[A-Za-z0-9][A-Za-z0-9-]{0,62})*$/

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

/** A host as in a Host header, without the port. */
export const host = shaped(
  /^[A-Za-z0-9._:[\]-]+$/,
  'is not a host; write a name or an address without a port, such as [fd00::1]',
  readHost,
)

const hostWords = ['preserve', 'upstream'] as const

/** The Host field that backends receive: the client's, the one of their own URL, or a fixed name. A name close to one of the two words is taken for a typing error. */
export const hostField = shaped<(typeof hostWords)[number] | { readonly name: string }>(
  /^[A-Za-z0-9._:[\]-]+$/,
  'is neither preserve nor upstream, nor a host; write one of the two, or a name such as api.example, with a port if wanted',
  (written) => {
    const word = hostWords.find((each) => each === written)
    if (word !== undefined) return word
    const isHost = readHost(written) !== undefined || parseHostPort(written) !== undefined
    return isHost && suggest(written, hostWords) === '' ? { name: written } : undefined
  },
)

const hostPortShape = /^(.+):(0|[1-9][0-9]{0,4})$/

const parseAddress = (written: string): HostPort | undefined => {
  const [, host = '', digits = ''] = hostPortShape.exec(written) ?? []
  const readableHost = readHost(host)
  const port = Number(digits)
  return readableHost === undefined || port > 65_535 ? undefined : { host: readableHost, port }
}

/** HOST:PORT of a server to connect to; undefined for anything else. */
export const parseHostPort = (written: string): HostPort | undefined => {
  const address = parseAddress(written)
  return address?.port === 0 ? undefined : address
}

/** Address of a listener; port 0 asks for a free port. */
export const listenAddress = shaped(
  hostPortShape,
  'is not HOST:PORT; write 127.0.0.1:8080, [::1]:8080 or 0.0.0.0:8080 (every interface)',
  parseAddress,
)

/** `/` is the empty base path. */
export const basePath = text
  .regex(
    /^(?:\/|(?=.{1,256}$)(?:\/(?!\.{1,2}(?:\/|$))[A-Za-z0-9._~-]+)+)$/,
    'is not a base path; write one such as /v1, without a final "/", or / for the root',
  )
  .transform((written) => (written === '/' ? '' : written))

/** A path in origin form, with an optional query, sent as written. */
export const healthPath = text.regex(
  /^\/[!-~]{0,1023}$/,
  'is not a path; write one such as /healthz, in visible ASCII',
)

/** An address, or a network such as 10.0.0.0/8. */
export const network = shaped(
  /^[0-9A-Fa-f.:]+(?:\/(?:0|[1-9][0-9]{0,2}))?$/,
  'is not an address or network; write 10.1.2.3, 10.0.0.0/8 or fd00::/8',
  (written) => {
    const [address = '', prefix = '0'] = written.split('/')
    const family = isIP(address)
    return family !== 0 && Number(prefix) <= (family === 4 ? 32 : 128) ? written : undefined
  },
)

/** Reads visible ASCII only: the URL parser would silently drop tabs and line breaks, and turn backslashes round. */
const parseUrl = (written: string): URL | undefined => {
  const url = /^[!-[\]-~]+$/.test(written) ? URL.parse(written) : null
  const isUsable = url?.username === '' && url.password === '' && url.port !== '0'
  return isUsable ? url : undefined
}

/** A URL of that shape, without credentials; `read` returns the value, undefined where it is none after all. */
const urlOf = (
  shape: RegExp,
  fault: string,
  read: (url: URL, written: string) => string | undefined,
) =>
  shaped(shape, fault, (written) => {
    const url = parseUrl(written)
    return url && read(url, written)
  })

/** An http or https origin; the value has no final slash. */
export const origin = urlOf(
  /^[A-Za-z]{4,5}:\/\/[^/?#@]+\/?$/,
  'is not an origin; write http://HOST:PORT or https://HOST:PORT, without path, query or credentials',
  (url) => (/^https?:$/.test(url.protocol) ? url.origin : undefined),
)

/** An origin as browsers send it in Origin (RFC 6454 6.2), or * for any. */
export const webOrigin = shaped(
  /^(?:\*|https?:\/\/[^/?#@*]+)$/,
  'is not the origin of a page; write https://app.example, with a port if it has one and without a final "/", or "*" for any',
  (written) => (written === '*' ? written : parseUrl(written)?.origin),
)

/** Keys decide who may pass, so they travel over https, or not beyond this machine. */
export const jwksUri = urlOf(
  /^https?:\/\/[^#]+$/,
  'is not a safe key set address; write an https:// URL without credentials (http:// only for this machine)',
  (url, written) => (url.protocol === 'https:' || isLoopback(url.hostname) ? written : undefined),
)

/** URL of a trace collector; one without a path gets the path that OTLP/HTTP defines for traces. */
export const collectorUrl = urlOf(
  /^https?:\/\/[^?#@]+$/,
  'is not the address of a collector; write http://HOST:PORT or https://HOST:PORT, with a path if it is not /v1/traces',
  (url, written) => (url.pathname === '/' ? `${url.origin}/v1/traces` : written),
)

/** Characters that would end a Link header's `<...>` early are left out (RFC 8288 section 3). */
const absolute = /^https?:\/\/[!#-;=?-[\]_a-z~]+$/
const absoluteOrPath = /^(?:https?:\/)?\/(?!\/)[!#-;=?-[\]_a-z~]*$/

export const absoluteLink = urlOf(
  absolute,
  'is not a link; write an absolute http:// or https:// URL',
  (_, written) => written,
)

/** A path below the base path, or an absolute URL. */
export const successorLink = shaped(
  absoluteOrPath,
  'is not a link; write a path such as /pets?status=available, or an absolute URL',
  (written) => (written.startsWith('/') || parseUrl(written) ? written : undefined),
)
