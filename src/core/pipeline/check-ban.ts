/** Answers a banned key from memory, before the store or the backend hear of it. */
import type { BanBook } from '../bans/ban-book.ts'
import type { Lessee } from '../quota/lessee.ts'
import { DAY_MS } from '../../config/time.ts'
import type { Judged } from './exchange.ts'
import { refuse, type Refusal } from '../rules/refusals.ts'
import { endsAtSeconds } from '../rules/ban-policy.ts'
import type { BanRecord } from '../../state/bans.ts'
import type { Caller } from '../rules/credentials.ts'
import { banHeaders, usedUp } from '../rules/quota-headers.ts'
import type { Charges } from './take-quota.ts'

interface BanAnswer {
  readonly ban: BanRecord
  /** The store's Unix time in ms at which a number in it changes: the wait, or that of a window, which ends with a whole second. */
  readonly goodUntilMs: number
  readonly refusal: Refusal
  readonly headers: readonly string[]
}

export function createCheckBan(bans: BanBook, { lessee, tally, timestamps }: Charges) {
  /** The last answer to each banned caller: it is good for up to a second, however many ask. */
  const answers = new WeakMap<Caller, BanAnswer>()
  return function checkBan(exchange: Judged, caller: Caller): Refusal | undefined {
    exchange.decidedMs = timestamps.next()
    const ban = bans.check(caller.keyId)
    if (ban === undefined) return undefined
    const nowMs = bans.now()
    tally.refused(caller, 'ban', undefined, Math.floor(nowMs / DAY_MS))
    let answer = answers.get(caller)
    if (answer?.ban !== ban || nowMs >= answer.goodUntilMs) {
      answer = answerBan(lessee, caller, ban, nowMs)
      answers.set(caller, answer)
    }
    exchange.quotaHeaders = answer.headers
    return answer.refusal
  }
}

function answerBan(lessee: Lessee, caller: Caller, ban: BanRecord, nowMs: number): BanAnswer {
  const { clientId, limits, policy } = caller
  const { untilMs } = ban
  const view = lessee.known(clientId, limits)
  const banSeconds = Math.max(1, Math.ceil((untilMs - nowMs) / 1000))
  // Whoever comes back at the end of the ban would be refused by its window.
  const retryAfterSeconds = Math.max(banSeconds, (view && usedUp(view)?.resetAfterSeconds) ?? 0)
  const nextSecondMs = (Math.floor(nowMs / 1000) + 1) * 1000
  return {
    ban,
    goodUntilMs: Math.min(nextSecondMs, untilMs - (banSeconds - 1) * 1000),
    headers: banHeaders({ limits, policy, endsAtSeconds: endsAtSeconds(ban), view }),
    refusal: refuse('api_key_banned', {
      detail: `Retry in ${retryAfterSeconds} s.`,
      retryAfterSeconds,
    }),
  }
}
