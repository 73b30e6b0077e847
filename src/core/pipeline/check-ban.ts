/** Answers a banned key from memory, before the store or a backend is involved. */
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
  /** The store's Unix time in ms at which a number in the answer changes: the wait for the end of the ban or of a window. */
  readonly goodUntilMs: number
  readonly refusal: Refusal
  readonly headers: readonly string[]
}

export function createCheckBan(bans: BanBook, { lessee, tally, timestamps }: Charges) {
  /** The last answer to each banned caller; it stays valid for up to a second, however many requests come. */
  const answers = new WeakMap<Caller, BanAnswer>()
  return function checkBan(exchange: Judged, caller: Caller): Refusal | undefined {
    exchange.decidedMs = timestamps.next()
    const ban = bans.running(caller.keyId)
    if (ban === undefined) return undefined
    const nowMs = bans.nowMs
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
  const { clientId, limits } = caller
  const { untilMs } = ban
  const view = lessee.known(clientId, limits)
  const banSeconds = Math.max(1, Math.ceil((untilMs - nowMs) / 1000))
  // At the end of the ban an exhausted window would still refuse the client.
  const retryAfterSeconds = Math.max(banSeconds, (view && usedUp(view)?.resetAfterSeconds) ?? 0)
  const nextSecondMs = (Math.floor(nowMs / 1000) + 1) * 1000
  return {
    ban,
    goodUntilMs: Math.min(nextSecondMs, untilMs - (banSeconds - 1) * 1000),
    headers: banHeaders(caller, endsAtSeconds(ban), view),
    refusal: refuse('api_key_banned', {
      detail: `Retry in ${retryAfterSeconds} s.`,
      retryAfterSeconds,
      limited: { reason: ban.by ?? 'strikes' },
    }),
  }
}
