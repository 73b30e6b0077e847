/** Answers a banned key from memory, before the store or the backend hear of it. */
import type { BanBook } from '../adapters/ban-book.ts'
import type { Exchange } from '../exchange.ts'
import { refuse, type Refusal } from '../refusals.ts'
import type { Caller } from '../rules/credentials.ts'
import { banHeaders } from '../rules/quota-headers.ts'

export function createCheckBan(bans: BanBook, epochMs: () => number) {
  return function checkBan(exchange: Exchange, caller: Caller): Refusal | undefined {
    const nowMs = epochMs()
    const ban = bans.check(caller.keyId, nowMs)
    if (ban === undefined) return undefined
    const retryAfterSeconds = Math.max(1, Math.ceil((ban.untilMs - nowMs) / 1000))
    exchange.quotaHeaders = banHeaders({
      limits: caller.limits,
      policy: caller.policy,
      untilMs: ban.untilMs,
      nowMs,
    })
    return refuse('api_key_banned', {
      detail: `Retry in ${retryAfterSeconds} s.`,
      retryAfterSeconds,
    })
  }
}
