/**
 * Answers a preflight, in which a browser asks whether a page may send a request (Fetch 3.3.2). It comes before authentication,
 * as a preflight carries no credential. It costs no more than a refusal and is not counted: a count by address would let one page
 * use up what the pages of its neighbours need.
 */
import type { Cors } from '../rules/cors.ts'
import { fieldOf, isFieldName } from '../rules/field-names.ts'
import { isMethod } from '../rules/framing.ts'
import { OVERLOADED } from '../rules/overload.ts'
import type { Refusal } from '../rules/refusals.ts'
import type { RouteTable } from '../rules/routes.ts'
import type { Exchange } from './exchange.ts'
import { answerEmpty } from './respond.ts'
import type { Lateness } from './shed-load.ts'

export interface PreflightDeps {
  readonly cors: Cors
  readonly table: RouteTable
  readonly unmatched: 'forward' | 'reject'
  readonly load: Lateness
}

/** The stage returns a refusal while the event loop is late; undefined: the request is no preflight. It expects a path within the base path. */
export function createAnswerPreflight(deps: PreflightDeps) {
  const { cors, table, unmatched, load } = deps
  return function answerPreflight(
    exchange: Exchange,
    path: string,
  ): 'answered' | Refusal | undefined {
    const { method, rawHeaders } = exchange.request
    if (method !== 'OPTIONS') return undefined
    const origin = fieldOf(rawHeaders, 'origin')
    const asked = fieldOf(rawHeaders, 'access-control-request-method')
    // A method is a token, as the name of a field is (RFC 9110 5.6.2).
    if (origin === undefined || asked === undefined || !isFieldName(asked)) return undefined
    if (load.shed !== 'nothing') return OVERLOADED
    const methods = table.methodsAt(path)
    const named =
      unmatched === 'forward' && isMethod(asked) && !methods.includes(asked)
        ? [...methods, asked]
        : methods
    exchange.corsHeaders = NO_HEADERS
    answerEmpty(exchange, 204, cors.preflightHeaders(origin, named.join(', ')))
    return 'answered'
  }
}

const NO_HEADERS: readonly string[] = []
