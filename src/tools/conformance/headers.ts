/** Checks that the fields of an answer are true and agree with each other. */
import { MOST_OVER } from './admission.ts'
import type { Caller, KeyedAnswer } from './caller.ts'
import { answersOf, broken, cannotTell, holds, judgeEach, notClaimed } from './check.ts'
import type { Checks, Finding, Setup } from './check.ts'
import { header, retryAfter, rateLimit, xRateLimit } from './standing.ts'
import { clocksFault, isUnix, spreadMs } from './windows.ts'

const TIME_LEFT_MS = 20_000
/** Tolerance for a Date, a delta and an end that are each rounded to seconds. */
const ROUNDING_MS = 2_000

async function remaining({ limits }: Setup, caller: Caller): Promise<Finding> {
  await caller.freshWindow(TIME_LEFT_MS)
  const { admitted: earlier, journal } = caller
  const before = journal.length
  await caller.exhaust(2, limits.perMinute + MOST_OVER)
  caller.stillCounts()
  const admitted = journal.slice(before).filter(({ isRefused }) => !isRefused)
  const reported = admitted.map((answer, at) => ({
    is: caller.reported(answer).remaining,
    due: Math.max(0, limits.perMinute - earlier - at - 1),
  }))
  if (reported.every(({ is }) => is === undefined)) return notClaimed('no Remaining is sent')
  const wrong = reported.filter(({ is, due }) => is !== due)
  const [first] = wrong
  const numbers = { seen: reported.length, wrong: wrong.length }
  if (first === undefined) return holds(`true on ${reported.length} answers in a row`, numbers)
  return broken(`${first.is} stated where ${first.due} are left`, numbers)
}

function limit(setup: Setup): Finding {
  const limits: readonly number[] = Object.values(setup.limits)
  const reported = answersOf(setup.journals).flatMap((answer) => {
    const fields = rateLimit(answer)
    const policies = typeof fields === 'object' ? [...fields.values()] : []
    return [xRateLimit(answer).limit, ...policies.map(({ q }) => q)].filter(
      (each) => each !== undefined,
    )
  })
  return judgeEach(reported, 'limits stated', (each) =>
    limits.includes(each) ? undefined : `it says ${each}`,
  )
}

const resetFixed = ({ journals, limits }: Setup): Finding =>
  judgeEach(
    journals.filter(({ lastResetMs }) => lastResetMs !== undefined),
    'keys with a Reset that stands',
    (caller) => {
      // A delta added to a Date, both in whole seconds, may seem to move by one.
      const movedMs = spreadMs(caller)
      return movedMs > (isUnix(caller, limits) ? 0 : 1_000)
        ? `it moved by ${movedMs / 1_000} s`
        : undefined
    },
  )

const fields = (setup: Setup): Finding =>
  judgeEach(
    answersOf(setup.journals).flatMap((answer) => rateLimit(answer) ?? []),
    'answers with well-formed RateLimit',
    (reported) => (typeof reported === 'string' ? reported : undefined),
  )

function disagreement(answer: KeyedAnswer): string | undefined {
  const x = xRateLimit(answer)
  const fields = rateLimit(answer)
  if (typeof fields !== 'object') return undefined
  const dateMs = Date.parse(header(answer, 'date') ?? '')
  // Another check judges the Reset of a ban, or a limit that no policy has.
  const reported = [...fields.values()].filter(({ q, r }) => q === x.limit && r !== undefined)
  const isSaid = reported.some(({ r, t = NaN }) => {
    const apartMs = Math.abs(dateMs + t * 1_000 - (x.resetMs ?? NaN))
    // A busy gateway may send the Date of its last look at the clock, even from before it read the request.
    return r === x.remaining && !(apartMs > ROUNDING_MS + answer.receivedMs - answer.sentMs)
  })
  if (isSaid || reported.length === 0) return undefined
  return `Remaining: ${x.remaining} and r=${reported[0]?.r}, or another end by Date`
}

function agree(setup: Setup): Finding {
  const found = judgeEach(
    answersOf(setup.journals).filter(
      (answer) => xRateLimit(answer).limit !== undefined && typeof rateLimit(answer) === 'object',
    ),
    'answers with both that agree',
    disagreement,
  )
  if (found.verdict !== 'broken') return found
  const [clocks] = setup.journals.flatMap((caller) => clocksFault(caller, setup.limits) ?? [])
  return clocks === undefined ? found : cannotTell(clocks)
}

const refusals = (setup: Setup): Finding =>
  judgeEach(
    answersOf(setup.journals).filter(({ isRefused }) => isRefused),
    'refusals that say so',
    (answer) => {
      const wait = retryAfter(answer)
      const { remaining: left = 0 } = xRateLimit(answer)
      if (typeof wait !== 'number' || wait < 1) return `Retry-After: ${wait ?? 'none'}`
      return left === 0 ? undefined : `Remaining: ${left}`
    },
  )

export const headers: Checks = {
  remaining,
  limit,
  'reset-fixed': resetFixed,
  fields,
  agree,
  'on-429': refusals,
}
