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

/** One path with its parameters, such as `/v1/pets/{petId}`. */
interface Template {
  /** undefined stands for a parameter. */
  readonly segments: readonly (string | undefined)[]
  readonly hits: Map<string, Route>
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
const NO_TEMPLATES: readonly Template[] = []

/** Expects checked routes: no two match the same requests, and a parameter is a whole segment. */
export function compileRoutes(config: RoutesConfig) {
  const { basePath } = config
  const literals = new Map<string, Map<string, Route>>()
  const templates = compileTemplates(config)
  for (const { segments, hits } of templates) {
    if (!segments.includes(undefined)) literals.set(`/${segments.join('/')}`, hits)
  }
  // A route for `/` is the base path itself, with and without the slash.
  const root = literals.get(`${basePath}/`)
  if (root !== undefined && basePath !== '') literals.set(basePath, root)
  const parameterised = templates.filter(({ segments }) => segments.includes(undefined))
  const bySegmentCount = Map.groupBy(parameterised, ({ segments }) => segments.length)

  /**
   * Returns undefined outside the base path. path: without the query, not decoded. It is compared as it is: checkTarget has
   * refused every spelling that has a plainer equivalent, such as `/%70ets` for `/pets`.
   */
  function match(method: string, path: string): Route | undefined {
    const literal = literals.get(path)
    const hit = literal?.get(method)
    if (hit !== undefined) return hit
    if (!isInside(path, basePath)) return undefined
    const candidates = bySegmentCount.get(countSegments(path)) ?? NO_TEMPLATES
    for (const { segments, hits } of candidates) {
      const found = hits.get(method)
      if (found !== undefined && fits(segments, path)) return found
    }
    return UNMATCHED
  }

  /** Methods of a path below the base path, sorted. */
  function methodsAt(path: string): string[] {
    const candidates = bySegmentCount.get(countSegments(path)) ?? NO_TEMPLATES
    const others = candidates.filter(({ segments }) => fits(segments, path))
    const known = others.flatMap(({ hits }) => [...hits.keys()])
    return [...new Set([...(literals.get(path)?.keys() ?? []), ...known])].sort()
  }

  return { match, methodsAt }
}

function toRoute(config: RouteConfig, basePath: string): Route {
  const { name, websocket, responseTimeoutMs, deprecated } = config
  return {
    name,
    template: `${basePath}${config.path}`,
    websocket,
    responseTimeoutMs,
    lifecycleHeaders: lifecycleHeaders(config, { basePath }),
    deprecated: deprecated !== undefined,
    withdrawal: deprecated && withdrawalOf(deprecated),
  }
}

/** One template per shape of path, the most specific first. */
function compileTemplates(config: RoutesConfig): readonly Template[] {
  const byShape = new Map<string, Template>()
  for (const route of config.routes) {
    const segments = `${config.basePath}${route.path}`.slice(1).split('/').map(toSegment)
    const shape = segments.map((segment) => segment ?? '{}').join('/')
    const template = byShape.get(shape) ?? { segments, hits: new Map<string, Route>() }
    byShape.set(shape, template)
    template.hits.set(route.method, toRoute(route, config.basePath))
  }
  for (const { hits } of byShape.values()) {
    // RFC 9110 9.3.2: HEAD is GET without the body.
    const get = hits.get('GET')
    if (get !== undefined && !hits.has('HEAD')) hits.set('HEAD', get)
  }
  return [...byShape.values()].sort(bySpecificity)
}

function toSegment(text: string): string | undefined {
  return text.startsWith('{') && text.endsWith('}') ? undefined : text
}

/** Where two paths first differ, from the left, a literal segment goes before a parameter. */
function bySpecificity(a: Template, b: Template): number {
  const rank = ({ segments }: Template) => segments.map((text) => (text === undefined ? 1 : 0))
  const [left, right] = [rank(a).join(''), rank(b).join('')]
  return left < right ? -1 : left > right ? 1 : 0
}

function isInside(path: string, basePath: string): boolean {
  if (!path.startsWith(basePath)) return false
  return path.length === basePath.length || path.startsWith('/', basePath.length)
}

function countSegments(path: string): number {
  let count = 0
  for (let at = path.indexOf('/'); at !== -1; at = path.indexOf('/', at + 1)) count++
  return count
}

/** segments: as many as the path has. A parameter takes one segment that is not empty. */
function fits(segments: readonly (string | undefined)[], path: string): boolean {
  let start = 1
  for (const segment of segments) {
    const slash = path.indexOf('/', start)
    const end = slash === -1 ? path.length : slash
    const same =
      segment === undefined
        ? end > start
        : end - start === segment.length && path.startsWith(segment, start)
    if (!same) return false
    start = end + 1
  }
  return true
}
