/** Checks of `routes` that need more than one value. */
import { below, itemsAt, readAt, repeated } from './places.ts'
import type { Path, PathProblem } from './problems.ts'
import { formatPath, problem } from './problems.ts'
import { routeMatch } from './route-match.ts'
import { dateMs } from './scalars.ts'
import { textAt, valueAt } from './tree.ts'
import type { Group } from './tree.ts'

const checkRoute = (tree: Group, path: Path): PathProblem[] => {
  const problems: PathProblem[] = []
  const since = readAt(tree, [...path, 'deprecated', 'since'], dateMs)
  const sunset = readAt(tree, [...path, 'deprecated', 'sunset'], dateMs)
  if (since !== undefined && sunset !== undefined && sunset < since) {
    const message = 'is before since; a route is deprecated first and removed later'
    problems.push(problem([...path, 'deprecated', 'sunset'], message))
  }
  problems.push(...checkBrownouts(tree, [...path, 'deprecated'], sunset))
  const match = readAt(tree, [...path, 'match'], routeMatch)
  const isWebSocket = textAt(tree, ...path, 'websocket') === 'true'
  if (isWebSocket && match !== undefined && match.method !== 'GET') {
    const message = 'needs a GET route, as a WebSocket opens with GET; change match or remove it'
    problems.push(problem([...path, 'websocket'], message))
  }
  return problems
}

/** path: path of the deprecation. */
const checkBrownouts = (tree: Group, path: Path, sunset: number | undefined): PathProblem[] => {
  const isGone = textAt(tree, ...path, 'afterSunset') === 'gone'
  const brownouts = itemsAt(tree, ...path, 'brownouts').map((at) => ({
    at,
    from: readAt(tree, [...at, 'from'], dateMs) ?? NaN,
    to: readAt(tree, [...at, 'to'], dateMs) ?? NaN,
  }))
  const problems: PathProblem[] = []
  if (isGone && valueAt(tree, ...path, 'sunset') === undefined)
    problems.push(problem([...path, 'afterSunset'], 'needs a time to go; add sunset'))
  for (const [index, { at, from, to }] of brownouts.entries()) {
    const earlier = brownouts.slice(0, index).find((one) => one.from < to && from < one.to)
    if (to <= from)
      problems.push(
        problem([...at, 'to'], 'is not after from; a brownout ends later than it begins'),
      )
    else if (isGone && sunset !== undefined && to > sunset)
      problems.push(
        problem([...at, 'to'], 'is after sunset, when the operation is gone; end it before'),
      )
    else if (earlier !== undefined)
      problems.push(
        problem(
          [...at, 'from'],
          `overlaps with ${formatPath(earlier.at)}; end one before the other`,
        ),
      )
  }
  return problems
}

export const checkRoutes = (tree: Group): PathProblem[] => {
  const routes = itemsAt(tree, 'routes')
  return [
    ...routes.flatMap((path) => checkRoute(tree, path)),
    ...repeated(
      below(routes, 'name'),
      (path) => textAt(tree, ...path),
      (earlier) => `is the same name as ${earlier}; give each its own`,
    ),
    ...repeated(
      below(routes, 'match'),
      (path) => readAt(tree, path, routeMatch)?.shape,
      (earlier) => `matches the same requests as ${earlier}; remove one`,
    ),
  ]
}
