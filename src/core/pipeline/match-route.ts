/** Finds the route of a sound target. Its refusal is passed on, to be answered after authentication. */
import type { Exchange } from './exchange.ts'
import { refuse, type Refusal } from '../rules/refusals.ts'
import type { RouteTable } from '../rules/routes.ts'

/** Nothing outside the base path needs authentication. */
export const OUTSIDE = refuse('not_found')
const UNKNOWN = refuse('not_found')

/** The stage returns a 404 or 405, which only callers with a valid credential get, unless it is OUTSIDE. */
export function createMatchRoute(table: RouteTable, unmatched: 'forward' | 'reject') {
  return function matchRoute(exchange: Exchange, path: string): Refusal | undefined {
    exchange.path = path
    const match = table.match(exchange.request.method ?? '', path)
    if (match.kind === 'outside') return OUTSIDE
    exchange.route = match.route
    if (match.kind === 'route' || unmatched === 'forward') return undefined
    const methods = table.methodsAt(path)
    if (methods.length === 0) return UNKNOWN
    return refuse('method_not_allowed', { allow: methods.join(', ') })
  }
}
