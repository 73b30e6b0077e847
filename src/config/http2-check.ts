/** Checks of `server.http2` against the keys beside it. */
import { problem, type PathProblem } from './problems.ts'
import { listAt, textAt, valueAt } from './tree.ts'
import type { Group } from './tree.ts'

const PATH = ['server', 'http2']

export const checkHttp2 = (tree: Group): PathProblem[] => {
  const http2 = textAt(tree, ...PATH)
  const hasTls = valueAt(tree, 'server', 'tls') !== undefined
  if (http2 === 'true' && !hasTls)
    return [problem(PATH, 'needs server.tls; add it, or write clear behind a trusted proxy')]
  if (http2 !== 'clear') return []
  if (hasTls) return [problem(PATH, 'does not go with server.tls; write true, or remove one')]
  if (listAt(tree, 'server', 'trustedProxies').length > 0) return []
  const message = 'needs server.trustedProxies: it is spoken with them alone; name the proxy'
  return [problem(PATH, message)]
}
