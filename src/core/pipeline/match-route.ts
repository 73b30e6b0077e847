/** Finds the route of a sound target. Its refusal is passed on, to be answered after authentication. */
import type { Exchange } from './exchange.ts'
import { refuse, type Refusal } from '../rules/refusals.ts'
import { UNMATCHED, type RouteTable } from '../rules/routes.ts'

/** Nothing outside the base path needs authentication. */
export const OUTSIDE = refuse('not_found')
const UNKNOWN = refuse('not_found')

/** The stage returns a 404 or 405, which only callers with a valid credential get, unless it is OUTSIDE. */
export function createMatchRoute(table: RouteTable, unmatched: 'forward' | 'reject') {
  return function matchRoute(exchange: Exchange, path: string): Refusal | undefined {
    exchange.path = path
    const route = table.match(exchange.request.method ?? '', path)
    if (route === undefined) return OUTSIDE
    exchange.route = route
    if (route !== UNMATCHED || unmatched === 'forward') return undefined
    const methods = table.methodsAt(path)
    if (methods.length === 0) return UNKNOWN
    return refuse('method_not_allowed', { allow: methods.join(', ') })
  }
}
