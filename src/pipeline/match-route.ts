/** Finds the route of a sound target. Its refusal is handed on, to be told after the credential was judged. */
import type { Exchange } from './exchange.ts'
import { refuse, type Refusal } from '../rules/refusals.ts'
import type { RouteTable } from '../rules/routes.ts'

export interface RouteVerdict {
  /** Outside the base path there is nothing to authenticate for. */
  readonly outside: boolean
  /** 404 or 405, told only to callers with a valid credential. */
  readonly refusal: Refusal | undefined
}

const FOUND: RouteVerdict = { outside: false, refusal: undefined }
const OUTSIDE: RouteVerdict = { outside: true, refusal: refuse('not_found') }
const UNKNOWN: RouteVerdict = { outside: false, refusal: refuse('not_found') }

export function createMatchRoute(table: RouteTable, unmatched: 'forward' | 'reject') {
  return function matchRoute(exchange: Exchange, path: string): RouteVerdict {
    exchange.path = path
    const match = table.match(exchange.request.method ?? '', path)
    if (match.kind === 'outside') return OUTSIDE
    exchange.route = match.route
    if (match.kind === 'route' || unmatched === 'forward') return FOUND
    if (match.allow === '') return UNKNOWN
    return { outside: false, refusal: refuse('method_not_allowed', { allow: match.allow }) }
  }
}
