/** Checks that need more than one value. They read the tree itself, so that a fault elsewhere hides none of these. */
import { listenAddress, origin } from './addresses.ts'
import type { HostPort } from './addresses.ts'
import { checkHttp2 } from './http2-check.ts'
import { suggest } from './nearest.ts'
import type { Path, PathProblem } from './problems.ts'
import { formatPath, problem } from './problems.ts'
import { below, itemsAt, readAt, repeated } from './places.ts'
import { checkRedis } from './redis-checks.ts'
import { checkRoutes } from './route-checks.ts'
import { duration, integer, label } from './scalars.ts'
import { checkAdmin, checkServer } from './server-checks.ts'
import { groupAt, isGroup, textAt, valueAt } from './tree.ts'
import type { Group } from './tree.ts'

/** A count without the bounds of its key. */
const count = integer({ min: 0, max: 1e15 })
const durationMs = duration({ min: 0, max: Number.MAX_SAFE_INTEGER })

const sameHost = (a: HostPort, b: HostPort): boolean => {
  const everywhere = (host: string) => host === '0.0.0.0' || host === '::'
  const local = (host: string) => (host === 'localhost' ? '127.0.0.1' : host)
  return everywhere(a.host) || everywhere(b.host) || local(a.host) === local(b.host)
}

const checkListeners = (tree: Group): PathProblem[] => {
  const open = readAt(tree, ['server', 'listen'], listenAddress)
  const admin = readAt(tree, ['admin', 'listen'], listenAddress)
  if (open === undefined || admin === undefined || admin.port === 0) return []
  return open.port === admin.port && sameHost(open, admin)
    ? [problem(['admin', 'listen'], 'is taken by server.listen; give it an address of its own')]
    : []
}

const checkTimeouts = (tree: Group): PathProblem[] => {
  const path = ['server', 'timeouts', 'headers']
  const headersMs = readAt(tree, path, durationMs)
  const requestMs = readAt(tree, ['server', 'timeouts', 'request'], durationMs)
  if (headersMs === undefined || requestMs === undefined || headersMs <= requestMs) return []
  return [
    problem(path, 'is longer than server.timeouts.request; the headers are part of the request'),
  ]
}

const checkUrls = (tree: Group): PathProblem[] =>
  repeated(
    itemsAt(tree, 'upstream', 'urls'),
    (path) => readAt(tree, path, origin),
    (earlier) => `is the same backend as ${earlier}; remove one`,
  )

const checkEject = (tree: Group): PathProblem[] => {
  const path = ['upstream', 'eject', 'maxFor']
  const maxForMs = readAt(tree, path, durationMs)
  const forMs = readAt(tree, ['upstream', 'eject', 'for'], durationMs)
  if (maxForMs === undefined || forMs === undefined || maxForMs >= forMs) return []
  return [problem(path, 'is shorter than `for`; raise maxFor, or lower for')]
}

const checkUpstreamTls = (tree: Group): PathProblem[] => {
  const path = ['upstream', 'tls']
  const has = (key: string): boolean => valueAt(tree, ...path, key) !== undefined
  return has('cert') === has('key')
    ? []
    : [problem(path, 'has one of cert and key; write both, or none', 'key')]
}

const checkWindows = (tree: Group, path: Path): PathProblem[] => {
  const perMinute = readAt(tree, [...path, 'perMinute'], count)
  const perDay = readAt(tree, [...path, 'perDay'], count)
  if (perMinute === undefined || perDay === undefined || perDay >= perMinute) return []
  return [
    problem([...path, 'perDay'], 'is below perMinute; a day allows at least what its minute does'),
  ]
}

const checkPlan = (tree: Group, name: string): PathProblem[] => {
  const path = ['plans', name]
  const plan = valueAt(tree, ...path)
  if (!isGroup(plan)) return []
  const limits = ['perMinute', 'perDay'].filter((key) => valueAt(plan, key) !== undefined)
  const custom = textAt(plan, 'custom')
  if (custom === 'false') {
    return [problem([...path, 'custom'], 'is not needed; write true, or give perMinute and perDay')]
  }
  if (custom !== undefined) {
    return limits.map((key) =>
      problem([...path, key], 'does not go with custom; remove one of the two', 'key'),
    )
  }
  if (valueAt(plan, 'custom') !== undefined || limits.length === 2) return checkWindows(tree, path)
  return [problem(path, 'has no full limits; give perMinute and perDay, or custom: true', 'key')]
}

/** Faults between the client at the path and the plans of the tree. */
export const checkClient = (tree: Group, path: Path): PathProblem[] => {
  const planName = readAt(tree, [...path, 'plan'], label)
  if (planName === undefined) return []
  const limits = valueAt(tree, ...path, 'limits')
  const plan = valueAt(tree, 'plans', planName)
  if (plan === undefined) {
    const names = Object.keys(groupAt(tree, 'plans')).map((name) => formatPath([name]))
    const all = names.length > 0 ? `the plans are ${names.join(', ')}` : 'define it under plans'
    return [problem([...path, 'plan'], `is not a defined plan; ${suggest(planName, names)}${all}`)]
  }
  const custom = textAt(plan, 'custom') === 'true'
  if (custom && limits === undefined) {
    return [problem([...path, 'limits'], 'is missing; a client of a custom plan states its own')]
  }
  if (!custom && limits !== undefined && isGroup(plan)) {
    return [
      problem([...path, 'limits'], 'is for custom plans only; remove it or change the plan', 'key'),
    ]
  }
  return checkWindows(tree, [...path, 'limits'])
}

export const sameId = (earlier: string): string => `is the same id as ${earlier}; give each its own`
export const sameDigest = (earlier: string): string =>
  `is the same digest as ${earlier}; one key belongs to one client, once`

const checkClients = (tree: Group): PathProblem[] => {
  const clients = itemsAt(tree, 'clients')
  const keys = clients.flatMap((path) => itemsAt(tree, ...path, 'keys'))
  const written = (path: Path) => textAt(tree, ...path)
  return [
    ...clients.flatMap((path) => checkClient(tree, path)),
    ...repeated(below(clients, 'id'), written, sameId),
    ...repeated(below(keys, 'id'), written, sameId),
    ...repeated(below(keys, 'sha256'), (path) => written(path)?.toLowerCase(), sameDigest),
  ]
}

const checkJwt = (tree: Group): PathProblem[] => {
  const jwt = valueAt(tree, 'jwt')
  if (!isGroup(jwt)) return []
  const uri = valueAt(jwt, 'jwksUri') !== undefined
  const file = valueAt(jwt, 'jwksFile') !== undefined
  if (uri && file) {
    return [problem(['jwt', 'jwksFile'], 'does not go with jwksUri; remove one of the two', 'key')]
  }
  return uri || file ? [] : [problem(['jwt'], 'has no keys; give jwksUri or jwksFile', 'key')]
}

const checkCors = (tree: Group): PathProblem[] => {
  const any = itemsAt(tree, 'cors', 'origins').find((path) => textAt(tree, ...path) === '*')
  if (any === undefined || textAt(tree, 'cors', 'credentials') !== 'true') return []
  return [problem(any, 'does not go with credentials: true; name the origins')]
}

const checkBans = (tree: Group): PathProblem[] => {
  const durationOf = readAt(tree, ['bans', 'duration'], durationMs)
  const longest = readAt(tree, ['bans', 'maxDuration'], durationMs)
  if (durationOf === undefined || longest === undefined || longest >= durationOf) return []
  return [problem(['bans', 'maxDuration'], 'is below bans.duration; raise it or lower that')]
}

/** Every fault between values of a tree that has its defaults. */
export const crossChecks = (tree: Group): PathProblem[] => [
  ...checkListeners(tree),
  ...checkHttp2(tree),
  ...checkTimeouts(tree),
  ...checkServer(tree),
  ...checkAdmin(tree),
  ...checkUrls(tree),
  ...checkRedis(tree),
  ...Object.keys(groupAt(tree, 'plans')).flatMap((name) => [
    ...checkPlan(tree, name),
    ...checkWindows(tree, ['plans', name, 'shadow']),
  ]),
  ...checkClients(tree),
  ...checkEject(tree),
  ...checkUpstreamTls(tree),
  ...checkCors(tree),
  ...checkJwt(tree),
  ...checkBans(tree),
  ...checkRoutes(tree),
]
