/** Finds the route of a sound target. Its refusal is handed on, to be told after the credential was judged. */
import type { Exchange } from './exchange.ts'
import { refuse, type Refusal } from '../rules/refusals.ts'
import type { RouteTable } from '../rules/routes.ts'

/** Outside the base path there is nothing to authenticate for. */
export const OUTSIDE = refuse('not_found')
const UNKNOWN = refuse('not_found')

/** The stage answers 404 or 405, which only callers with a valid credential are told, unless it is OUTSIDE. */
export function createMatchRoute(table: RouteTable, unmatched: 'forward' | 'reject') {
  return function matchRoute(exchange: Exchange, path: string): Refusal | undefined {
    exchange.path = path
    const match = table.match(exchange.request.method ?? '', path)
    if (match.kind === 'outside') return OUTSIDE
    exchange.route = match.route
    if (match.kind === 'route' || unmatched === 'forward') return undefined
    return match.allow === '' ? UNKNOWN : refuse('method_not_allowed', { allow: match.allow })
  }
}
