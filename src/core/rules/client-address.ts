/** Finds the client's address: the peer of the connection, or the one for which trusted proxies forward. */
import { BlockList, isIP, isIPv4 } from 'node:net'

export interface ClientAddress {
  /** IP address without zone; '' when the connection has been closed. */
  readonly address: string
  /** Key of the anonymous limit: the IPv4 address, or the /64 that one IPv6 user has. */
  readonly key: string
  /** The peer is a trusted proxy: its forwarding headers are believed. */
  readonly peerTrusted: boolean
  /** Trusted hops between the client and the gateway, the nearest to the gateway last, joined as X-Forwarded-For is; '' if there are none. */
  readonly proxies: string
}

/** peer: remote address of the connection. forwardedFor: all X-Forwarded-For fields, joined. */
export type ClientAddressOf = (peer: string, forwardedFor: string | undefined) => ClientAddress

/**
 * trustedProxies: addresses and CIDRs; with none, X-Forwarded-For is never read. Throws on a malformed one; the
 * configuration is checked before.
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

  // Successive requests often have the same peer.
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
 * Reads X-Forwarded-For from the right, since each proxy appends the address of its peer. The first untrusted address is
 * the client's; entries left of it are only the client's claim. A malformed entry ends the walk at the proxy that added it.
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

/** Removes port and brackets: `1.2.3.4:5678`, `[::1]:80`, `[::1]`. */
function withoutPort(entry: string): string {
  return /^(?:\[([^\]]*)\]|([0-9.]+))(?::[0-9]{1,5})?$/.exec(entry)?.slice(1).join('') ?? entry
}

/** An IP address without its zone, IPv4-mapped IPv6 as IPv4; undefined if the text is no address. */
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

/** address: a valid address, or ''. */
function addressKey(address: string): string {
  if (!address.includes(':')) return address
  return `${ipv6Groups(address).slice(0, 4).join(':')}::/64`
}

/** The IPv4 address within ::ffff:0:0/96 (RFC 4291 2.5.5.2). */
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
