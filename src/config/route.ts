/** The shape of a route: which requests it names, and what holds for them; with the checks between the values of `routes`. */
import { absoluteLink, successorLink } from './addresses.ts'
import { group, inMs, list } from './groups.ts'
import { formatPath, type Path, type Refuse } from './problems.ts'
import { choice, dateMs, duration, flag, label, share, text } from './scalars.ts'
import { below, has, isAbove, itemsAt, readAt, repeated, textAt, type Group } from './tree.ts'

interface RouteMatch {
  readonly method: string
  readonly path: string
  /** Method and path with every parameter as `{}`: equal for two routes that match the same requests. */
  readonly shape: string
}

/** HEAD follows GET, and OPTIONS is no operation of its own: neither is matched by name. */
const methods = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE']

const parameter = /^\{([A-Za-z_][A-Za-z0-9_]*)\}$/
/** The unreserved and sub-delimiter characters of RFC 3986 section 3.3, no percent-encoding and no dot segments. */
const literal = /^(?!\.{1,2}$)[A-Za-z0-9._~!$&'()*+,;=:@-]+$/

const methodAndPath = new RegExp(`^(${methods.join('|')}) (/\\S*)$`)

/** The leaf `METHOD /path/{param}`. */
const routeMatch = text
  .regex(
    methodAndPath,
    `is not "METHOD /path"; write a method of ${methods.join(', ')} (HEAD follows GET), one space, and a path`,
  )
  .transform((written, context): RouteMatch => {
    const [, method = '', path = ''] = methodAndPath.exec(written) ?? []
    const segments = path === '/' ? [] : path.slice(1).split('/')
    const names = segments.flatMap((segment) => parameter.exec(segment)?.[1] ?? [])
    if (!segments.every((segment) => parameter.test(segment) || literal.test(segment))) {
      context.addIssue(
        'has a path that cannot be matched; write plain segments or {name}, such as /pets/{petId}, without a final "/"',
      )
    }
    if (new Set(names).size < names.length) {
      context.addIssue('names one parameter twice; give each its own name')
    }
    const shape = segments.map((segment) => (parameter.test(segment) ? '{}' : segment)).join('/')
    return { method, path, shape: `${method} /${shape}` }
  })

const someShare = share.refine((part) => part > 0, 'is nobody; write 1% to 100%, or remove it')

export const route = group({
  name: label,
  match: routeMatch,
  deprecated: group({
    since: dateMs,
    sunset: dateMs.optional(),
    successor: successorLink.optional(),
    /** Documentation of the deprecation (rel="deprecation"). */
    link: absoluteLink.optional(),
    afterSunset: choice(['announce', 'gone']).prefault('announce'),
    /** Periods in which the route is refused for a minute at a time to a share of the clients. */
    brownouts: list(
      group({ from: dateMs, to: dateMs, share: someShare }).transform(inMs('from', 'to')),
    ).prefault([]),
  })
    .transform(inMs('since', 'sunset'))
    .optional(),
  stability: choice(['experimental', 'beta', 'stable']).optional(),
  websocket: flag.prefault('false'),
  timeouts: group({ response: duration('1ms', '1d') }).optional(),
}).transform(({ match: { method, path }, timeouts, ...given }) => ({
  ...given,
  method,
  path,
  responseTimeoutMs: timeouts?.response,
}))

/** path: path of the deprecation. */
const checkDeprecation = (tree: Group, path: Path, refuse: Refuse): void => {
  const isGone = textAt(tree, ...path, 'afterSunset') === 'gone'
  const [since, sunset] = [
    [...path, 'since'],
    [...path, 'sunset'],
  ] as const
  if (isAbove(tree, dateMs, since, sunset))
    refuse(sunset, 'is before since; a route is deprecated first and removed later')
  if (isGone && !has(tree, ...sunset))
    refuse([...path, 'afterSunset'], 'needs a time to go; add sunset')
  const brownouts = itemsAt(tree, ...path, 'brownouts').map((at) => ({
    at,
    from: readAt(tree, [...at, 'from'], dateMs) ?? NaN,
    to: readAt(tree, [...at, 'to'], dateMs) ?? NaN,
  }))
  for (const [index, { at, from, to }] of brownouts.entries()) {
    const earlier = brownouts.slice(0, index).find((one) => one.from < to && from < one.to)
    if (to <= from) refuse([...at, 'to'], 'is not after from; a brownout ends later than it begins')
    else if (isGone && isAbove(tree, dateMs, [...at, 'to'], sunset))
      refuse([...at, 'to'], 'is after sunset, when the operation is gone; end it before')
    else if (earlier !== undefined)
      refuse([...at, 'from'], `overlaps with ${formatPath(earlier.at)}; end one before the other`)
  }
}

export const checkRoutes = (tree: Group, refuse: Refuse): void => {
  const routes = itemsAt(tree, 'routes')
  const matchAt = (path: Path) => readAt(tree, path, routeMatch)
  for (const path of routes) {
    checkDeprecation(tree, [...path, 'deprecated'], refuse)
    const { method = 'GET' } = matchAt([...path, 'match']) ?? {}
    if (method !== 'GET' && textAt(tree, ...path, 'websocket') === 'true')
      refuse(
        [...path, 'websocket'],
        'needs a GET route, as a WebSocket opens with GET; change match or remove it',
      )
  }
  for (const [path, earlier] of repeated(below(routes, 'name'), (path) => textAt(tree, ...path)))
    refuse(path, `is the same name as ${earlier}; give each its own`)
  for (const [path, earlier] of repeated(below(routes, 'match'), (path) => matchAt(path)?.shape))
    refuse(path, `matches the same requests as ${earlier}; remove one`)
}
