/** Answers the question of a browser whether a page may send a request (Fetch 3.3.2), before any credential: it carries none. */
import type { AddressCounter } from '../counters/anonymous-limiter.ts'
import type { Cors } from '../rules/cors.ts'
import { isFieldName } from '../rules/field-names.ts'
import { isMethod } from '../rules/framing.ts'
import { refuse, type Refusal } from '../rules/refusals.ts'
import type { RouteTable } from '../rules/routes.ts'
import { whenKnown } from '../rules/when-known.ts'
import type { Exchange } from './exchange.ts'
import { answerEmpty } from './respond.ts'

/** Of one address, over all workers: it costs nobody quota, so it is bounded by itself. */
const PREFLIGHTS_PER_SECOND = 60

const TOO_MANY = refuse('rate_limit_exceeded', {
  cause: 'preflights',
  detail: `Limit: ${PREFLIGHTS_PER_SECOND} preflights a second.`,
  retryAfterSeconds: 1,
})

type Preflight = 'answered' | Refusal

export interface PreflightDeps {
  readonly cors: Cors
  readonly table: RouteTable
  readonly unmatched: 'forward' | 'reject'
  /** Counts in seconds. */
  readonly addresses: AddressCounter
}

/** The stage is 'answered', or a refusal where there were too many; undefined: the request is none. Called within the base path. */
export function createAnswerPreflight(deps: PreflightDeps) {
  const { cors, table, unmatched, addresses } = deps
  return function answerPreflight(
    exchange: Exchange,
    path: string,
  ): Preflight | Promise<Preflight> | undefined {
    const { method, headers } = exchange.request
    const { origin, 'access-control-request-method': asked } = headers
    // A name as of a field is what a method is, too: a token (RFC 9110 5.6.2).
    if (method !== 'OPTIONS' || origin === undefined || asked === undefined || !isFieldName(asked))
      return undefined
    const count = { address: exchange.addressKey, points: 1, limit: PREFLIGHTS_PER_SECOND }
    return whenKnown(addresses.add(count), ({ total }) => {
      if (total > PREFLIGHTS_PER_SECOND) return TOO_MANY
      const methods = table.methodsAt(path)
      const named =
        unmatched === 'forward' && isMethod(asked) && !methods.includes(asked)
          ? [...methods, asked]
          : methods
      exchange.corsHeaders = NO_HEADERS
      answerEmpty(exchange, 204, cors.preflightHeaders(origin, named.join(', ')))
      return 'answered'
    })
  }
}

const NO_HEADERS: readonly string[] = []
