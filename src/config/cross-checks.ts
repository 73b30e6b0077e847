/** Checks that need more than one value. They read the tree itself, so that a fault elsewhere hides none of these. */
import { listenAddress, origin } from './addresses.ts'
import type { HostPort } from './addresses.ts'
import { suggest } from './nearest.ts'
import type { Path, PathProblem } from './problems.ts'
import { formatPath } from './problems.ts'
import { checkRedis } from './redis-checks.ts'
import { routeMatch } from './route-match.ts'
import { dateMs, duration, integer, label } from './scalars.ts'
import type { Leaf } from './scalars.ts'
import { groupAt, isGroup, listAt, textAt, valueAt } from './tree.ts'
import type { Group, Tree } from './tree.ts'

const problem = (path: Path, message: string, at: 'key' | 'value' = 'value'): PathProblem => ({
  path,
  at,
  message,
})

/** Undefined where the text is absent or refused: the schema tells that. */
const readAt = <T>(tree: Tree, path: Path, leaf: Leaf<T>): T | undefined =>
  leaf.safeParse(textAt(tree, ...path)).data

/** Whatever the bounds of its key. */
const count = integer({ min: 0, max: 1e15 })
const durationMs = duration({ min: 0, max: Number.MAX_SAFE_INTEGER })

/** Reports every entry whose mark an earlier one already has; entries without a mark are left alone. */
const repeated = (
  entries: readonly { readonly path: Path; readonly mark: string | undefined }[],
  message: (earlier: string) => string,
): PathProblem[] => {
  const seen = new Map<string, Path>()
  return entries.flatMap(({ path, mark }) => {
    if (mark === undefined) return []
    const earlier = seen.get(mark)
    if (earlier !== undefined) return [problem(path, message(formatPath(earlier)))]
    seen.set(mark, path)
    return []
  })
}

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

const checkUrls = (tree: Group): PathProblem[] => {
  const urls = listAt(tree, 'upstream', 'urls').map((_, index) => {
    const path = ['upstream', 'urls', index]
    return { path, mark: readAt(tree, path, origin) }
  })
  return repeated(urls, (earlier) => `is the same backend as ${earlier}; remove one`)
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

const checkClient = (tree: Group, index: number): PathProblem[] => {
  const path = ['clients', index]
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

const checkClients = (tree: Group): PathProblem[] => {
  const clients = listAt(tree, 'clients')
  const keyPaths = clients.flatMap((client, index) =>
    listAt(client, 'keys').map((_, key) => ['clients', index, 'keys', key]),
  )
  const marks = (paths: readonly Path[], name: string) =>
    paths.map((path) => ({
      path: [...path, name],
      mark: textAt(tree, ...path, name)?.toLowerCase(),
    }))
  const exact = (paths: readonly Path[], name: string) =>
    paths.map((path) => ({ path: [...path, name], mark: textAt(tree, ...path, name) }))
  const clientPaths = clients.map((_, index) => ['clients', index])
  const taken = (earlier: string) => `is the same id as ${earlier}; give each its own`
  return [
    ...clients.flatMap((_, index) => checkClient(tree, index)),
    ...repeated(exact(clientPaths, 'id'), taken),
    ...repeated(exact(keyPaths, 'id'), taken),
    ...repeated(
      marks(keyPaths, 'sha256'),
      (earlier) => `is the same digest as ${earlier}; one key belongs to one client, once`,
    ),
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

const checkBans = (tree: Group): PathProblem[] => {
  const durationOf = readAt(tree, ['bans', 'duration'], durationMs)
  const longest = readAt(tree, ['bans', 'maxDuration'], durationMs)
  if (durationOf === undefined || longest === undefined || longest >= durationOf) return []
  return [problem(['bans', 'maxDuration'], 'is below bans.duration; raise it or lower that')]
}

const checkRoute = (tree: Group, index: number): PathProblem[] => {
  const path = ['routes', index]
  const problems: PathProblem[] = []
  const since = readAt(tree, [...path, 'deprecated', 'since'], dateMs)
  const sunset = readAt(tree, [...path, 'deprecated', 'sunset'], dateMs)
  if (since !== undefined && sunset !== undefined && sunset < since) {
    const message = 'is before since; a route is deprecated first and removed later'
    problems.push(problem([...path, 'deprecated', 'sunset'], message))
  }
  const match = readAt(tree, [...path, 'match'], routeMatch)
  if (
    textAt(tree, ...path, 'websocket') === 'true' &&
    match !== undefined &&
    match.method !== 'GET'
  ) {
    const message = 'needs a GET route, as a WebSocket opens with GET; change match or remove it'
    problems.push(problem([...path, 'websocket'], message))
  }
  return problems
}

const checkRoutes = (tree: Group): PathProblem[] => {
  const paths: Path[] = listAt(tree, 'routes').map((_, index) => ['routes', index])
  const names = paths.map((path) => ({
    path: [...path, 'name'],
    mark: textAt(tree, ...path, 'name'),
  }))
  const matches = paths.map((path) => ({
    path: [...path, 'match'],
    mark: readAt(tree, [...path, 'match'], routeMatch)?.shape,
  }))
  return [
    ...paths.flatMap((_, index) => checkRoute(tree, index)),
    ...repeated(names, (earlier) => `is the same name as ${earlier}; give each its own`),
    ...repeated(matches, (earlier) => `matches the same requests as ${earlier}; remove one`),
  ]
}

/** Every fault that lies between values of a tree that has its defaults. */
export const crossChecks = (tree: Group): PathProblem[] => [
  ...checkListeners(tree),
  ...checkTimeouts(tree),
  ...checkUrls(tree),
  ...checkRedis(tree),
  ...Object.keys(groupAt(tree, 'plans')).flatMap((name) => checkPlan(tree, name)),
  ...checkClients(tree),
  ...checkJwt(tree),
  ...checkBans(tree),
  ...checkRoutes(tree),
]
