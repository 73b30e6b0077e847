/** Finds the client's address: the peer of the connection, or the one for which trusted proxies forward. */
import { BlockList, isIP, isIPv4, SocketAddress } from 'node:net'

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
    const family = familyOf(address)
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

/** An IP address as RFC 5952 writes it, without its zone, IPv4-mapped IPv6 as IPv4; undefined if the text is no address. */
export function readAddress(text: string): string | undefined {
  if (isIPv4(text)) return text
  if (isIP(text) !== 6) return undefined
  // A zone would be looked up among this machine's interfaces.
  const { address } = new SocketAddress({ address: text.replace(/%.*/, ''), family: 'ipv6' })
  // RFC 4291 2.5.5.2. Only such an address is written with ffff and dots.
  return /^::ffff:(.+\..+)$/.exec(address)?.[1] ?? address
}

const familyOf = (address: string) => (isIPv4(address) ? 'ipv4' : 'ipv6')

/** address: a result of readAddress, or ''. */
function addressKey(address: string): string {
  if (!address.includes(':')) return address
  const [left = '', right = ''] = address.split('::')
  const head = left === '' ? [] : left.split(':')
  const tail = right === '' ? [] : right.split(':')
  // An address with dots begins with six zeros, so that it is no matter that they stand for two groups.
  const zeros = Array.from({ length: 8 - head.length - tail.length }, () => '0')
  return `${[...head, ...zeros, ...tail].slice(0, 4).join(':')}::/64`
}
