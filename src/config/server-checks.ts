/** Checks of `server` that need more than one value. */
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
