/** match-route finds the route of a sound target; its refusal is passed on, to be answered after authentication. answer-preflight follows it. */
import { fieldOf, isFieldName } from '../rules/field-names.ts'
import { METHODS } from '../rules/framing.ts'
import { OVERLOADED } from '../rules/overload.ts'
import { refuse, type Refusal } from '../rules/refusals.ts'
import { UNMATCHED } from '../rules/routes.ts'
import type { Exchange, Policy } from './exchange.ts'
import { answerEmpty } from './respond.ts'

/** Nothing outside the base path needs authentication. */
export const OUTSIDE = refuse('not_found')
const UNKNOWN = refuse('not_found')

/** Returns a 404 or 405, which only callers with a valid credential get, unless it is OUTSIDE. */
export function matchRoute(
  { table, unmatched }: Policy,
  exchange: Exchange,
  path: string,
): Refusal | undefined {
  exchange.path = path
  const route = table.match(exchange.request.method ?? '', path)
  if (route === undefined) return OUTSIDE
  exchange.route = route
  if (route !== UNMATCHED || unmatched === 'forward') return undefined
  const methods = table.methodsAt(path)
  if (methods.length === 0) return UNKNOWN
  return refuse('method_not_allowed', { allow: methods.join(', ') })
}

/**
 * Answers a preflight (Fetch 3.3.2) before authentication, as it carries no credential. It is not counted: a count by address would let one page use up
 * what the pages of its neighbours need. Returns a refusal while the event loop is late; undefined: the request is no preflight, or
 * no page may read answers. It expects a path within the base path.
 */
export function answerPreflight(
  { cors, table, unmatched, load }: Policy,
  exchange: Exchange,
  path: string,
): 'answered' | Refusal | undefined {
  const { method, rawHeaders } = exchange.request
  if (cors === undefined || method !== 'OPTIONS') return undefined
  const origin = fieldOf(rawHeaders, 'origin')
  const asked = fieldOf(rawHeaders, 'access-control-request-method')
  // A method is a token, as the name of a field is (RFC 9110 5.6.2).
  if (origin === undefined || asked === undefined || !isFieldName(asked)) return undefined
  if (load.shed !== 'nothing') return OVERLOADED
  const methods = table.methodsAt(path)
  const named =
    unmatched === 'forward' && METHODS.has(asked) && !methods.includes(asked)
      ? [...methods, asked]
      : methods
  exchange.corsHeaders = []
  answerEmpty(exchange, 204, cors.preflightHeaders(origin, named.join(', ')))
  return 'answered'
}
