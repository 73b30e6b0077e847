/** Charges a request in both windows or in neither, and says in the headers where the client stands. */
import type { BanBook } from '../bans/ban-book.ts'
import type { Exchange } from './exchange.ts'
import type { QuotaView } from '../rules/quota-headers.ts'
import type { Lessee } from '../quota/lessee/lessee.ts'
import type { Admission, QuotaDecision } from '../quota/protocol.ts'
import { refuse, type Refusal } from '../rules/refusals.ts'
import type { Caller } from '../rules/credentials.ts'
import { isSameStanding, quotaHeaders, refusedHeaders } from '../rules/quota-headers.ts'

type Denial = QuotaDecision & { kind: 'refused' }

const STORE_LOST = refuse('service_unavailable', {
  cause: 'the quota store is away: store.onOutage is closed, or this process has no share left',
  // It is back soon, or another process has tokens left.
  retryAfterSeconds: 1,
})
const NO_HEADERS: readonly string[] = []

export function createTakeQuota(lessee: Lessee, bans: BanBook) {
  const answers = new WeakMap<Caller, AnsweredDenial>()
  return function takeQuota(
    exchange: Exchange,
    caller: Caller,
  ): Admission | Refusal | Promise<Admission | Refusal> {
    const decision = lessee.take(caller.clientId, caller.limits)
    const settle = (decided: QuotaDecision): Admission | Refusal => {
      if (decided.kind === 'unavailable') {
        exchange.degraded = true
        return STORE_LOST
      }
      exchange.degraded = decided.degraded
      if (decided.kind === 'refused') {
        // A refusal made without the store may be unjust, so it is no strike.
        if (!decided.degraded) reportRefusal(bans, caller, decided)
        return deny(answers, exchange, caller, decided)
      }
      exchange.admission = decided
      tellQuota(exchange, caller, decided.view)
      return decided
    }
    return decision instanceof Promise ? decision.then(settle) : settle(decision)
  }
}

/** Hands the charge back, once, and tells the caller its true standing where that is known at once. */
export function refund(lessee: Lessee, exchange: Exchange): void {
  const { caller, admission } = exchange
  if (caller === undefined || admission === undefined) return
  exchange.admission = undefined
  lessee.refund(caller.clientId, admission)
  if (admission.degraded) return
  const view = lessee.peek(caller.clientId, caller.limits)
  if (!(view instanceof Promise)) tellQuota(exchange, caller, view)
}

/**
 * Ends what is under way for a request that gets no whole answer, and hands its charge back if no backend has seen any of
 * it. What a backend has seen was work, and stays charged, whatever the client is answered.
 */
export function giveUp(lessee: Lessee, exchange: Exchange): void {
  if (exchange.forwarding?.abort() !== true) refund(lessee, exchange)
}

/** Puts the client's standing into the answer; none when it is not known, since headers are true or absent. */
export function tellQuota(exchange: Exchange, caller: Caller, view: QuotaView | undefined): void {
  exchange.quota = view
  exchange.quotaHeaders = view === undefined ? NO_HEADERS : quotaHeaders(view, caller.policy)
}

function reportRefusal(bans: BanBook, { keyId }: Caller, { view, window }: Denial): void {
  const windowEndMs = (view?.[window].resetAtSeconds ?? 0) * 1000
  bans.refused({ keyId, windowEndMs, nowMs: Date.now() })
}

interface AnsweredDenial {
  readonly decided: Denial
  readonly refusal: Refusal
  readonly headers: readonly string[]
}

/** Whoever goes on after a 429 gets the same answer until something in it changes, which is once a second. */
function deny(
  answers: WeakMap<Caller, AnsweredDenial>,
  exchange: Exchange,
  caller: Caller,
  decided: Denial,
): Refusal {
  let latest = answers.get(caller)
  if (latest === undefined || !isSameDenial(latest.decided, decided)) {
    latest = answerDenial(caller, decided)
    answers.set(caller, latest)
  }
  exchange.quota = decided.view
  exchange.quotaHeaders = latest.headers
  return latest.refusal
}

function isSameDenial(one: Denial, other: Denial): boolean {
  return (
    one.retryAfterSeconds === other.retryAfterSeconds &&
    one.window === other.window &&
    one.limit === other.limit &&
    isSameStanding(one.view, other.view)
  )
}

function answerDenial(caller: Caller, decided: Denial): AnsweredDenial {
  const { view, window, limit, retryAfterSeconds } = decided
  const refusal = refuse('rate_limit_exceeded', {
    detail: `Limit: ${limit} a ${window}. Retry in ${retryAfterSeconds} s.`,
    retryAfterSeconds,
  })
  const headers = view === undefined ? NO_HEADERS : refusedHeaders(view, window, caller.policy)
  return { decided, refusal, headers }
}
