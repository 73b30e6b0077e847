/** The stages that cost an authenticated caller nothing and involve neither the store nor a backend: check-ban, shed-load, check-deprecation. */
import type { Lessee } from '../quota/lessee.ts'
import { DAY_MS } from '../../config/time.ts'
import type { Judged, Policy } from './exchange.ts'
import { refuse, type Refusal } from '../rules/refusals.ts'
import { endsAtSeconds } from '../rules/ban-policy.ts'
import { passesFromMs } from '../rules/deprecation.ts'
import { OVERLOADED } from '../rules/overload.ts'
import type { BanRecord } from '../../state/bans.ts'
import type { Caller } from '../rules/credentials.ts'
import { banHeaders, usedUp } from '../rules/quota-headers.ts'
import { setQuota } from './take-quota.ts'

/** The last answer to each banned caller; it stays valid for up to a second, however many requests come. */
const answers = new WeakMap<Caller, ReturnType<typeof answerBan>>()

export function checkBan(
  { bans, lessee, tally, timestamps }: Policy,
  exchange: Judged,
  caller: Caller,
): Refusal | undefined {
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

const causes = { strikes: 'It went on after 429 answers.', operator: 'An operator banned it.' }

function answerBan(lessee: Lessee, caller: Caller, ban: BanRecord, nowMs: number) {
  const { clientId, limits } = caller
  const { untilMs } = ban
  const view = lessee.known(clientId, limits)
  const banSeconds = Math.max(1, Math.ceil((untilMs - nowMs) / 1000))
  // At the end of the ban an exhausted window would still refuse the client.
  const retryAfterSeconds = Math.max(banSeconds, (view && usedUp(view)?.resetAfterSeconds) ?? 0)
  const nextSecondMs = (Math.floor(nowMs / 1000) + 1) * 1000
  return {
    ban,
    /** The store's Unix time in ms at which a number in the answer changes: the wait for the end of the ban or of a window. */
    goodUntilMs: Math.min(nextSecondMs, untilMs - (banSeconds - 1) * 1000),
    headers: banHeaders(caller, endsAtSeconds(ban), view),
    refusal: refuse('api_key_banned', {
      detail: `${causes[ban.by ?? 'strikes']} Retry in ${retryAfterSeconds} s.`,
      retryAfterSeconds,
      limited: { reason: ban.by ?? 'strikes' },
    }),
  }
}

/** Refuses even authenticated callers while the event loop is much too late. */
export function shedLoad(
  { load, lessee }: Policy,
  exchange: Judged,
  caller: Caller,
): Refusal | undefined {
  if (load.shed !== 'everything') return undefined
  setQuota(exchange, caller, lessee.known(caller.clientId, caller.limits))
  return OVERLOADED
}

const REMOVED = refuse('operation_removed')

export function checkDeprecation(
  { epochMs }: Policy,
  { route }: Judged,
  { clientId }: Caller,
): Refusal | undefined {
  if (route?.withdrawal === undefined) return undefined
  const nowMs = epochMs()
  const fromMs = passesFromMs(route.withdrawal, clientId, nowMs)
  if (fromMs <= nowMs) return undefined
  if (fromMs === Infinity) return REMOVED
  const retryAfterSeconds = Math.ceil((fromMs - nowMs) / 1000)
  return refuse('operation_in_brownout', {
    detail: `Retry in ${retryAfterSeconds} s.`,
    retryAfterSeconds,
  })
}
