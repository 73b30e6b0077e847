/** Checks of `server` and `admin` that need more than one value. */
import { listenAddress } from './addresses.ts'
import { isLoopback } from './hosts.ts'
import type { PathProblem } from './problems.ts'
import { problem } from './problems.ts'
import { listAt, textAt, valueAt } from './tree.ts'
import type { Group } from './tree.ts'

export const checkServer = (tree: Group): PathProblem[] => {
  const problems: PathProblem[] = []
  const { tls, hsts } = {
    tls: valueAt(tree, 'server', 'tls'),
    hsts: valueAt(tree, 'server', 'hsts'),
  }
  if (hsts !== undefined && tls === undefined) {
    const message = 'is for TLS alone (RFC 6797 7.2); add server.tls, or remove it'
    problems.push(problem(['server', 'hsts'], message, 'key'))
  }
  const isProxied = textAt(tree, 'server', 'proxyProtocol') === 'true'
  if (isProxied && listAt(tree, 'server', 'trustedProxies').length === 0) {
    const message =
      'needs server.trustedProxies: connections of all others are reset; name the balancer'
    problems.push(problem(['server', 'proxyProtocol'], message))
  }
  return problems
}

/** The operations that change quotas and bans must not be open to everybody. */
export const checkAdmin = (tree: Group): PathProblem[] => {
  const listen = listenAddress.safeParse(textAt(tree, 'admin', 'listen')).data
  const credentials = [
    ['admin', 'tokenSha256'],
    ['admin', 'tls', 'clientCa'],
  ]
  if (listen === undefined || isLoopback(listen.host)) return []
  if (credentials.some((path) => valueAt(tree, ...path) !== undefined)) return []
  const message =
    'can be reached by others than this machine; set admin.tokenSha256 or admin.tls.clientCa, or listen on 127.0.0.1'
  return [problem(['admin', 'listen'], message)]
}
