/** Finds out who a request comes from: the peer of the connection, or whom trusted proxies say they speak for. */
import { BlockList, isIP, isIPv4 } from 'node:net'

export interface ClientAddress {
  /** IP address without zone; '' for a connection that has none any more. */
  readonly address: string
  /** What the anonymous limit counts under: the IPv4 address, or the /64 that an IPv6 user has to himself. */
  readonly key: string
  /** The peer is a trusted proxy: its forwarding headers are to be believed. */
  readonly peerTrusted: boolean
  /** Trusted hops between the client and us, nearest to us last, joined as X-Forwarded-For is; '' if there are none. */
  readonly proxies: string
}

/** peer: remote address of the connection. forwardedFor: all X-Forwarded-For fields, joined. */
export type ClientAddressOf = (peer: string, forwardedFor: string | undefined) => ClientAddress

/**
 * trustedProxies: addresses and CIDRs; with none, X-Forwarded-For is never read. Throws on a malformed one, which
 * the configuration has refused before.
 */
export function createClientAddress(trustedProxies: readonly string[]): ClientAddressOf {
  const trusted = new BlockList()
  for (const network of trustedProxies) {
    const [address = '', prefix] = network.split('/')
    const family = isIPv4(address) ? 'ipv4' : 'ipv6'
    if (prefix === undefined) trusted.addAddress(address, family)
    else trusted.addSubnet(address, Number(prefix), family)
  }
  const isTrusted = (address: string): boolean =>
    trustedProxies.length > 0 && isIP(address) !== 0 && trusted.check(address, familyOf(address))

  // Requests of one connection, and of one proxy, come in a row.
  let lastPeer: string | undefined
  let last: ClientAddress = { address: '', key: '', peerTrusted: false, proxies: '' }
  return function clientAddress(peer, forwardedFor) {
    if (peer !== lastPeer) {
      const address = readAddress(peer) ?? ''
      last = { address, key: addressKey(address), peerTrusted: isTrusted(address), proxies: '' }
      lastPeer = peer
    }
    if (!last.peerTrusted || forwardedFor === undefined) return last
    return walk(last, forwardedFor, isTrusted)
  }
}

/**
 * From the right, as each proxy appends whom it heard from: the first that is not trusted is the client, and what
 * stands left of it is only its claim. A malformed entry ends the walk at the proxy that vouched for it.
 */
function walk(
  peer: ClientAddress,
  forwardedFor: string,
  isTrusted: (address: string) => boolean,
): ClientAddress {
  let { address, proxies } = peer
  let end = forwardedFor.length
  while (end >= 0 && isTrusted(address)) {
    const comma = end === 0 ? -1 : forwardedFor.lastIndexOf(',', end - 1)
    const next = readAddress(withoutPort(forwardedFor.slice(comma + 1, end).trim()))
    if (next === undefined) break
    proxies = proxies === '' ? address : `${address}, ${proxies}`
    address = next
    end = comma
  }
  return { address, key: addressKey(address), peerTrusted: true, proxies }
}

/** `1.2.3.4:5678`, `[::1]:80` and `[::1]` without what is not the address. */
function withoutPort(entry: string): string {
  return /^(?:\[([^\]]*)\]|([0-9.]+))(?::[0-9]{1,5})?$/.exec(entry)?.slice(1).join('') ?? entry
}

/** An IP address without its zone, IPv4-mapped IPv6 as IPv4; undefined if the text is none. */
function readAddress(text: string): string | undefined {
  if (isIPv4(text)) return text
  if (isIP(text) !== 6) return undefined
  const zone = text.indexOf('%')
  const address = (zone === -1 ? text : text.slice(0, zone)).toLowerCase()
  return mappedIPv4(address) ?? address
}

function familyOf(address: string): 'ipv4' | 'ipv6' {
  return address.includes(':') ? 'ipv6' : 'ipv4'
}

/** address: a valid one, or ''. */
function addressKey(address: string): string {
  if (!address.includes(':')) return address
  return `${ipv6Groups(address).slice(0, 4).join(':')}::/64`
}

/** RFC 4291 2.5.5.2: ::ffff:0:0/96. */
function mappedIPv4(address: string): string | undefined {
  const groups = ipv6Groups(address)
  const mapped = groups.slice(0, 6).join(':') === '0:0:0:0:0:ffff'
  if (!mapped) return undefined
  const [high, low] = groups.slice(6).map((group) => Number.parseInt(group, 16))
  return [high ?? 0, low ?? 0].flatMap((group) => [group >> 8, group & 0xff]).join('.')
}

/** The eight groups of a valid IPv6 address, in hexadecimal without leading zeros. */
function ipv6Groups(address: string): string[] {
  const [head = '', tail] = address.split('::')
  const left = toGroups(head)
  const right = toGroups(tail ?? '')
  const gap = Array.from({ length: 8 - left.length - right.length }, () => '0')
  return [...left, ...gap, ...right]
}

function toGroups(part: string): string[] {
  if (part === '') return []
  return part.split(':').flatMap((group) => {
    if (!group.includes('.')) return Number.parseInt(group, 16).toString(16)
    const [a = 0, b = 0, c = 0, d = 0] = group.split('.').map(Number)
    return [((a << 8) | b).toString(16), ((c << 8) | d).toString(16)]
  })
}
