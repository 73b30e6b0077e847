/** Requests that have ended, as metrics count them. */
import type { Exchange } from '../../src/core/pipeline/exchange.ts'
import { refuse, type RefusalCode } from '../../src/core/rules/refusals.ts'
import type { RequestTimes } from '../../src/core/record/access-record.ts'

export interface Finished {
  readonly route: string
  readonly plan: string | undefined
  readonly method: string
  readonly status: number
  readonly refusal: RefusalCode | undefined
  readonly refusedWindow: 'minute' | 'day' | undefined
  readonly deprecated: boolean
  readonly gatewayMs: number
  readonly backendMs: number | undefined
}

const usual: Finished = {
  route: 'listPets',
  plan: 'pro',
  method: 'GET',
  status: 200,
  refusal: undefined,
  refusedWindow: undefined,
  deprecated: false,
  gatewayMs: 0.3,
  backendMs: 4,
}

/** What RequestSeries.done takes. */
export function finished(more: Partial<Finished> = {}): [Exchange, RequestTimes] {
  const { route, plan, method, status, deprecated, gatewayMs, backendMs, ...rest } = {
    ...usual,
    ...more,
  }
  const { refusal, refusedWindow: window } = rest
  const exchange = {
    status,
    refusal: refusal && refuse(refusal, { window }),
    route: { name: route, deprecated },
    caller: plan === undefined ? undefined : { plan },
    request: { method },
  } as Exchange
  return [exchange, { nowMs: 0, totalMs: gatewayMs + (backendMs ?? 0), gatewayMs, backendMs }]
}
