/** Whether a request to the admin listener names this listener. Pure. */
import { isLoopback } from '../config/addresses.ts'

/**
 * A page of another site, whose name is made to point here (DNS rebinding), sends that name as its Host. names: by which the
 * listener is known; localAddress: the one that was connected to. Ports are passed over, as they are often mapped.
 */
export function isOwnHost(
  hostHeader: string | undefined,
  { names, localAddress = '' }: { names: readonly string[]; localAddress?: string | undefined },
): boolean {
  // Left out by HTTP/1.0 alone, in which old load balancers probe and no browser speaks.
  if (hostHeader === undefined) return true
  const [, ipv6, other] = /^(?:\[([^\]]+)\]|([^:]+))(?::\d*)?$/.exec(hostHeader) ?? []
  const host = (ipv6 ?? other)?.toLowerCase()
  if (host === undefined) return false
  // An IPv4 connection to a listener of both families.
  const address = localAddress.replace(/^::ffff:/, '')
  return isLoopback(host) || host === address || names.some((name) => name.toLowerCase() === host)
}
