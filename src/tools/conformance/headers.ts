/** What the fields of an answer say is true, and the same in all of them. */
import { OVER } from './admission.ts'
import type { Caller, KeyedAnswer } from './caller.ts'
import { broken, cannotTell, holds, judgeEach, notClaimed } from './check.ts'
import type { Checks, Finding, Stage } from './check.ts'
import { Unexpected } from './connection.ts'
import { header, retryAfter, toldByFields, toldByX } from './standing.ts'
import { clocksFault, isUnix, spreadMs } from './windows.ts'

const GOES_ON_MS = 20_000
/** Between a Date, seconds to go and an end in seconds, each rounded. */
const ROUNDING_MS = 2_000

const answersOf = ({ journals }: Stage): KeyedAnswer[] => journals.flatMap(({ journal }) => journal)

async function remaining({ limits }: Stage, [caller]: readonly Caller[]): Promise<Finding> {
  if (caller === undefined) throw new Unexpected('no key')
  await caller.freshWindow(GOES_ON_MS)
  const { admitted: earlier, journal } = caller
  const before = journal.length
  await caller.exhaust(2, limits.perMinute + OVER)
  caller.stillCounts()
  const admitted = journal.slice(before).filter(({ isRefused }) => !isRefused)
  const told = admitted.map((answer, at) => ({
    is: caller.told(answer).remaining,
    due: Math.max(0, limits.perMinute - earlier - at - 1),
  }))
  if (told.every(({ is }) => is === undefined)) return notClaimed('no Remaining is sent')
  const wrong = told.filter(({ is, due }) => is !== due)
  const [first] = wrong
  const numbers = { seen: told.length, wrong: wrong.length }
  if (first === undefined) return holds(`true on ${told.length} answers in a row`, numbers)
  return broken(`${first.is} told where ${first.due} are left`, numbers)
}

function limit(stage: Stage): Finding {
  const { perMinute, perDay } = stage.limits
  const told = answersOf(stage).flatMap((answer) => {
    const fields = toldByFields(answer)
    const policies = typeof fields === 'object' ? [...fields.values()] : []
    return [toldByX(answer).limit, ...policies.map(({ q }) => q)].filter(
      (each) => each !== undefined,
    )
  })
  return judgeEach(told, 'limits told', (each) =>
    each === perMinute || each === perDay ? undefined : `it says ${each}`,
  )
}

const resetFixed = ({ journals, limits }: Stage): Finding =>
  judgeEach(
    journals.filter(({ toldResetMs }) => toldResetMs !== undefined),
    'keys with a Reset that stands',
    (caller) => {
      // Seconds to go, added to a Date in seconds, may seem to move by one.
      const movedMs = spreadMs(caller)
      return movedMs > (isUnix(caller, limits) ? 0 : 1_000)
        ? `it moved by ${movedMs / 1_000} s`
        : undefined
    },
  )

const fields = (stage: Stage): Finding =>
  judgeEach(
    answersOf(stage).flatMap((answer) => toldByFields(answer) ?? []),
    'answers with well-formed RateLimit',
    (told) => (typeof told === 'string' ? told : undefined),
  )

function disagreement(answer: KeyedAnswer): string | undefined {
  const x = toldByX(answer)
  const fields = toldByFields(answer)
  if (typeof fields !== 'object') return undefined
  const dateMs = Date.parse(header(answer, 'date') ?? '')
  // Where a ban speaks, or a limit that is no policy's, that is another finding.
  const told = [...fields.values()].filter(({ q, r }) => q === x.limit && r !== undefined)
  const isSaid = told.some(({ r, t = NaN }) => {
    const apartMs = Math.abs(dateMs + t * 1_000 - (x.resetMs ?? NaN))
    // A gateway that is held up tells the Date of when it last looked, be it before the question was read.
    return r === x.remaining && !(apartMs > ROUNDING_MS + answer.receivedMs - answer.sentMs)
  })
  if (isSaid || told.length === 0) return undefined
  return `Remaining: ${x.remaining} and r=${told[0]?.r}, or another end by Date`
}

function agree(stage: Stage): Finding {
  const found = judgeEach(
    answersOf(stage).filter(
      (answer) => toldByX(answer).limit !== undefined && typeof toldByFields(answer) === 'object',
    ),
    'answers with both that agree',
    disagreement,
  )
  if (found.verdict !== 'broken') return found
  const [clocks] = stage.journals.flatMap((caller) => clocksFault(caller, stage.limits) ?? [])
  return clocks === undefined ? found : cannotTell(clocks)
}

const refusals = (stage: Stage): Finding =>
  judgeEach(
    answersOf(stage).filter(({ isRefused }) => isRefused),
    'refusals that say so',
    (answer) => {
      const wait = retryAfter(answer)
      const { remaining: left = 0 } = toldByX(answer)
      if (typeof wait !== 'number' || wait < 1) return `Retry-After: ${wait ?? 'none'}`
      return left === 0 ? undefined : `Remaining: ${left}`
    },
  )

export const headers: Checks = {
  remaining: { keys: 1, run: remaining },
  limit: { keys: 'last', run: limit },
  'reset-fixed': { keys: 'last', run: resetFixed },
  fields: { keys: 'last', run: fields },
  agree: { keys: 'last', run: agree },
  'on-429': { keys: 'last', run: refusals },
}
