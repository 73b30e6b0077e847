/** Answers a banned key from memory, before the store or the backend hear of it. */
import type { BanBook } from '../bans/ban-book.ts'
import type { Exchange } from './exchange.ts'
import { refuse, type Refusal } from '../rules/refusals.ts'
import type { BanRecord } from '../rules/ban-policy.ts'
import type { Caller } from '../rules/credentials.ts'
import { banHeaders } from '../rules/quota-headers.ts'

interface ToldBan {
  readonly ban: BanRecord
  readonly refusal: Refusal
  readonly headers: readonly string[]
}

export function createCheckBan(bans: BanBook, epochMs: () => number) {
  /** The last answer to each banned caller: it is the same one for a second. */
  const told = new WeakMap<Caller, ToldBan>()
  return function checkBan(exchange: Exchange, caller: Caller): Refusal | undefined {
    const nowMs = epochMs()
    const ban = bans.check(caller.keyId, nowMs)
    if (ban === undefined) return undefined
    const retryAfterSeconds = Math.max(1, Math.ceil((ban.untilMs - nowMs) / 1000))
    let latest = told.get(caller)
    if (latest?.ban !== ban || latest.refusal.retryAfterSeconds !== retryAfterSeconds) {
      const { limits, policy } = caller
      const headers = banHeaders({ limits, policy, untilMs: ban.untilMs, nowMs })
      const detail = `Retry in ${retryAfterSeconds} s.`
      latest = { ban, headers, refusal: refuse('api_key_banned', { detail, retryAfterSeconds }) }
      told.set(caller, latest)
    }
    exchange.quotaHeaders = latest.headers
    return latest.refusal
  }
}
