/** Charges a request in all windows or in none, and puts the client's quota into the headers. */
import { NO_HEADERS, type Charges, type Exchange, type Judged, type Policy } from './exchange.ts'
import type { Admission, Denial, QuotaDecision, QuotaView } from '../quota/decision.ts'
import { DAY_MS, MINUTE_MS } from '../../config/time.ts'
import { refuse, type Refusal } from '../rules/refusals.ts'
import type { Caller } from '../rules/credentials.ts'
import { isSameStanding, quotaHeaders, refusedHeaders } from '../rules/quota-headers.ts'

export const STORE_LOST = refuse('service_unavailable', {
  cause: 'the quota store is away: store.onOutage is closed, or this process has no share left',
  // The store is back soon, or another process has tokens left.
  retryAfterSeconds: 1,
})

export function takeQuota(
  policy: Policy,
  exchange: Judged,
  caller: Caller,
): Admission | Refusal | Promise<Admission | Refusal> {
  const { lessee, judgeByShadow } = policy
  const decision = lessee.take(caller.clientId, caller.limits)
  // Limits that are only tried come after the decision, which never waits for them.
  if (judgeByShadow !== undefined) exchange.shadow = judgeByShadow(caller, decision)
  if (!(decision instanceof Promise)) return settle(policy, exchange, caller, decision)
  const { trace } = exchange
  const askedMs = trace?.isSampled === true ? performance.now() : 0
  return decision.then((decided) => {
    if (trace?.isSampled === true) trace.storeAnswered(askedMs, decided.kind)
    exchange.decidedMs = policy.timestamps.next()
    return settle(policy, exchange, caller, decided)
  })
}

function settle(
  { bans, tally, timestamps }: Policy,
  exchange: Judged,
  caller: Caller,
  decided: QuotaDecision,
): Admission | Refusal {
  const ownMs = exchange.decidedMs ?? timestamps.next()
  const atMs = decidedAt(decided, ownMs)
  exchange.decidedMs = atMs
  if (decided.kind === 'unavailable') {
    exchange.degraded = true
    return STORE_LOST
  }
  exchange.degraded = decided.degraded
  if (decided.kind === 'refused') {
    // A refusal made without the store may be unjust, so it is no strike.
    if (!decided.degraded) {
      const { view, window } = decided
      const windowEndMs = (view?.[window].resetAtSeconds ?? 0) * 1000
      // A ban begins when the log says that its last strike was decided, though by the store's clock.
      const refusedMs = decidedAt(decided, bans.clock.at(ownMs))
      bans.refused(caller.keyId, windowEndMs, refusedMs)
    }
    tally.refused(caller, decided.window, decided.view, Math.floor(atMs / DAY_MS))
    return deny(exchange, caller, decided)
  }
  exchange.admission = decided
  tally.admitted(caller, decided)
  setQuota(exchange, caller, decided.view)
  return decided
}

/** Hands the charge back, once, and corrects the quota in the answer where it is known at once. */
export function refund({ lessee, tally, timestamps }: Charges, exchange: Exchange): void {
  const { caller, admission } = exchange
  if (caller === undefined || admission === undefined) return
  exchange.admission = undefined
  exchange.refundedMs = timestamps.next()
  lessee.refund(caller.clientId, admission)
  exchange.shadow?.refund()
  tally.refunded(caller, admission)
  if (admission.degraded) return
  const view = lessee.peek(caller.clientId, caller.limits)
  if (!(view instanceof Promise)) setQuota(exchange, caller, view)
}

/**
 * Ends what is under way for a request that gets no whole answer, and hands its charge back if no backend has seen any of
 * it. A request that a backend has seen was work and stays charged, whatever the client gets.
 */
export function giveUp(charges: Charges, exchange: Exchange): void {
  if (exchange.forwarding?.abort() !== true) refund(charges, exchange)
}

/** Puts the client's quota into the answer; nothing when it is not known, since headers are true or absent. */
export function setQuota(exchange: Judged, caller: Caller, view: QuotaView | undefined): void {
  exchange.quota = view
  exchange.quotaHeaders = view === undefined ? NO_HEADERS : quotaHeaders(view, caller.policy)
}

/** Time of a decision, moved into the minute in which the store has counted it, if that is known. */
function decidedAt(decided: QuotaDecision, nowMs: number): number {
  if (decided.kind === 'unavailable' || decided.degraded) return nowMs
  const { kind, view } = decided
  const endSeconds =
    kind === 'admitted' ? (decided.charged.minute.index + 1) * 60 : view?.minute.resetAtSeconds
  if (endSeconds === undefined) return nowMs
  const endMs = endSeconds * 1000
  if (nowMs >= endMs) return endMs - 1
  return Math.max(nowMs, endMs - MINUTE_MS)
}

/** The last 429 of each caller. */
const answers = new WeakMap<Caller, ReturnType<typeof answerDenial>>()

/** Repeats the caller's last 429 until something in it changes, which is once a second. */
function deny(exchange: Judged, caller: Caller, decided: Denial): Refusal {
  let latest = answers.get(caller)
  if (latest === undefined || !isSameDenial(latest.decided, decided)) {
    latest = answerDenial(caller, decided)
    answers.set(caller, latest)
  }
  exchange.quota = decided.view
  exchange.quotaHeaders = latest.headers
  return latest.refusal
}

const isSameDenial = (one: Denial, other: Denial): boolean =>
  one.retryAfterSeconds === other.retryAfterSeconds &&
  one.window === other.window &&
  one.limit === other.limit &&
  isSameStanding(one.view, other.view)

function answerDenial(caller: Caller, decided: Denial) {
  const { view, window, limit, retryAfterSeconds } = decided
  const refusal = refuse('rate_limit_exceeded', {
    detail: `Limit: ${limit} a ${window}. Retry in ${retryAfterSeconds} s.`,
    retryAfterSeconds,
    window,
    limited: { window, limit },
  })
  const headers = view === undefined ? NO_HEADERS : refusedHeaders(view, window, caller.policy)
  return { decided, refusal, headers }
}
