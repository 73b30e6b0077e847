/** Finds the configured route of a method and path, and separates paths outside the base path from unknown ones. */
import type { Config, RouteConfig } from '../../config/config.ts'
import { lifecycleHeaders, withdrawalOf, type Withdrawal } from './deprecation.ts'

export interface Route extends Pick<RouteConfig, 'name' | 'websocket' | 'responseTimeoutMs'> {
  /** Path such as `/v1/pets/{petId}`; undefined where none is configured. */
  readonly template: string | undefined
  /** Header fields of every answer on this route, flat. */
  readonly lifecycleHeaders: readonly string[]
  readonly deprecated: boolean
  /** undefined: the route stays. */
  readonly withdrawal: Withdrawal | undefined
}

type RoutesConfig = Pick<Config, 'routes'> & Pick<Config['server'], 'basePath'>

export type RouteTable = ReturnType<typeof compileRoutes>

/** What follows a beginning that routes share: the segments behind it, and the routes that end here, by method. */
interface Branch {
  readonly literals: Map<string, Branch>
  /** Follows a parameter, which takes one segment that is not empty. */
  parameter: Branch | undefined
  readonly ends: Map<string, Route>
}

/** Stands for all paths within the base path that have no route of the method. */
export const UNMATCHED: Route = {
  name: 'unmatched',
  template: undefined,
  lifecycleHeaders: [],
  websocket: false,
  responseTimeoutMs: undefined,
  deprecated: false,
  withdrawal: undefined,
}

/** Expects checked routes: no two match the same requests, and a parameter is a whole segment. */
export function compileRoutes({ routes, basePath }: RoutesConfig) {
  const root = newBranch()
  for (const config of routes) {
    const route = toRoute(config, basePath)
    addRoute(branchAt(root, config.path), config.method, route)
    // A route for `/` is the base path itself, with and without the slash.
    if (config.path === '/') addRoute(root, config.method, route)
  }
  const methods = [...new Set(['HEAD', ...routes.map(({ method }) => method)])].sort()
  const at = basePath.length + 1
  return {
    /**
     * Returns undefined outside the base path. path: without the query, not decoded. It is compared as it is: checkTarget has
     * refused every spelling that has a plainer equivalent, such as `/%70ets` for `/pets`.
     */
    match: (method: string, path: string): Route | undefined =>
      isInside(path, basePath) ? (find(root, method, path, at) ?? UNMATCHED) : undefined,
    /** Methods of a path within the base path, sorted. */
    methodsAt: (path: string): string[] =>
      methods.filter((method) => find(root, method, path, at) !== undefined),
  }
}

export const toRoute = (config: RouteConfig, basePath: string): Route => ({
  ...config,
  template: `${basePath}${config.path}`,
  lifecycleHeaders: lifecycleHeaders(config, { basePath }),
  deprecated: config.deprecated !== undefined,
  withdrawal: config.deprecated && withdrawalOf(config.deprecated),
})

const newBranch = (): Branch => ({ literals: new Map(), parameter: undefined, ends: new Map() })

/** The branch behind all segments of the path, such as `/pets/{petId}`, grown where it is not there. */
function branchAt(root: Branch, path: string): Branch {
  let branch = root
  for (const segment of path.slice(1).split('/')) {
    if (segment.startsWith('{') && segment.endsWith('}')) branch = branch.parameter ??= newBranch()
    else {
      const next = branch.literals.get(segment) ?? newBranch()
      branch.literals.set(segment, next)
      branch = next
    }
  }
  return branch
}

function addRoute({ ends }: Branch, method: string, route: Route): void {
  ends.set(method, route)
  // RFC 9110 9.3.2: HEAD is GET without the body.
  if (method === 'GET' && !ends.has('HEAD')) ends.set('HEAD', route)
}

/** Where two routes first differ, from the left, a literal segment goes before a parameter. at: where the next segment begins. */
function find(branch: Branch, method: string, path: string, at: number): Route | undefined {
  if (at > path.length) return branch.ends.get(method)
  const slash = path.indexOf('/', at)
  const end = slash === -1 ? path.length : slash
  const literal = branch.literals.get(path.slice(at, end))
  const found = literal && find(literal, method, path, end + 1)
  if (found !== undefined || branch.parameter === undefined || end === at) return found
  return find(branch.parameter, method, path, end + 1)
}

function isInside(path: string, basePath: string): boolean {
  if (!path.startsWith(basePath)) return false
  return path.length === basePath.length || path.startsWith('/', basePath.length)
}
