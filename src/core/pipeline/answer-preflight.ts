/**
 * Answers the question of a browser whether a page may send a request (Fetch 3.3.2), before any credential: it carries none.
 * The answer is made in memory and costs no more than a refusal would, so nobody counts it: a count by address would let one
 * page refuse the pages of its neighbours.
 */
import type { Cors } from '../rules/cors.ts'
import { isFieldName } from '../rules/field-names.ts'
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

/** The stage is 'answered', or a refusal while the event loop is late; undefined: the request is no preflight. Called within the base path. */
export function createAnswerPreflight(deps: PreflightDeps) {
  const { cors, table, unmatched, load } = deps
  return function answerPreflight(
    exchange: Exchange,
    path: string,
  ): 'answered' | Refusal | undefined {
    const { method, headers } = exchange.request
    const { origin, 'access-control-request-method': asked } = headers
    // A name as of a field is what a method is, too: a token (RFC 9110 5.6.2).
    if (method !== 'OPTIONS' || origin === undefined || asked === undefined || !isFieldName(asked))
      return undefined
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
