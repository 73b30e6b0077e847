/** What happens at the end of a minute, and behind refusals: where it is, what is admitted around it, who waits as told. */
import { MINUTE_MS } from '../../config/time.ts'
import { OVER, ready } from './admission.ts'
import type { Caller } from './caller.ts'
import { broken, cannotTell, compared, holds, worstOf } from './check.ts'
import type { Checks, Finding, Stage } from './check.ts'
import { Unexpected } from './connection.ts'
import { sleep } from './machine.ts'
import { header, retryAfter, toldByX, type Limits } from './standing.ts'

/** So much of a minute is to be left where these begin to use it up. */
const GOES_ON_MS = 25_000
/** Before the told end: a Reset is rounded up by as much as one second, and so is the Date that seconds to go are added to. */
const EARLY_MS = [9_000, 6_000, 4_000]
const ROUNDED_MS = { unix: 1_250, delta: 2_000 }
/** Behind it. */
const LATE_MS = [0, 250, 1_000, 5_000]
const SAME_MINUTE_MS = 30_000
const REFUSALS = 5
/** Enough to see the day count. */
const OF_DAY = 20

/** Between the ends that were told of the last minute. */
export function spreadMs(caller: Caller): number {
  const told = caller.journal.flatMap((answer) => caller.told(answer).resetMs ?? [])
  const last = Math.max(...told)
  return last - Math.min(last, ...told.filter((resetMs) => last - resetMs < SAME_MINUTE_MS))
}

/** Whether all that it was told of the end is a Unix time, to which no Date was added. */
export const isUnix = ({ journal }: Caller, { perMinute }: Limits): boolean =>
  journal.map(toldByX).every(({ limit, isDelta }) => limit === perMinute && !isDelta)

/** By one clock an end that is a whole minute is at most 62 s behind Date: it is rounded up, and Date down. */
export function clocksFault(caller: Caller, limits: Limits): string | undefined {
  const isProven = caller.journal.some((answer) => {
    const { resetMs = NaN } = toldByX(answer)
    const heldUpMs = answer.receivedMs - answer.sentMs
    const aheadMs = resetMs - Date.parse(header(answer, 'date') ?? '') - heldUpMs
    return resetMs % MINUTE_MS === 0 && aheadMs > MINUTE_MS + 2_000
  })
  return isProven && isUnix(caller, limits) ? 'Date and Reset are of different clocks' : undefined
}

async function reset(stage: Stage, [caller]: readonly Caller[]): Promise<Finding> {
  if (caller === undefined) throw new Unexpected('no key')
  const { clock, limits } = stage
  await caller.freshWindow(GOES_ON_MS)
  await caller.exhaust(2, 2 * limits.perMinute)
  caller.stillCounts()
  const { resetMs } = caller
  const spread = spreadMs(caller)
  if (spread > 1_000) return cannotTell(`Reset moves by ${spread / 1_000} s`)
  const roundedMs = ROUNDED_MS[isUnix(caller, limits) ? 'unix' : 'delta']
  let tried = 0
  for (const earlyMs of [...EARLY_MS, roundedMs + 500]) {
    if (clock.latest() > resetMs - earlyMs) continue
    await clock.before(resetMs - earlyMs)
    const { isRefused, receivedMs } = await caller.ask()
    // On a machine that was asleep it may have been answered behind the end.
    if (clock.latest(receivedMs) > resetMs - roundedMs) continue
    tried++
    const clocks = isRefused ? undefined : clocksFault(caller, limits)
    if (clocks !== undefined) return cannotTell(clocks)
    if (!isRefused) return broken(`admitted ${earlyMs / 1_000} s before it by Date`, { earlyMs })
  }
  if (tried === 0) return cannotTell('too little was left of the minute')
  let refusedMs = 0
  for (const lateMs of LATE_MS) {
    await clock.passed(resetMs + lateMs)
    const { isRefused, sentMs } = await caller.ask()
    if (!isRefused && lateMs === 0) return holds('refused before, admitted behind it')
    if (!isRefused)
      return broken(`refused ${refusedMs} ms behind it by Date, not later`, { refusedMs })
    refusedMs = Math.floor(clock.earliest(sentMs) - resetMs)
  }
  return broken(`refused ${refusedMs} ms behind it by Date`, { refusedMs })
}

/** How many are admitted in two minutes that follow each other, most of it around the edge between them. */
async function around({ clock, machine }: Stage, caller: Caller, base: number): Promise<Finding> {
  while (caller.admitted < base - 10) await caller.ask()
  caller.stillCounts()
  const { resetMs } = caller
  await clock.before(resetMs - 3_000)
  await caller.exhaust(1, 2 * base)
  if (clock.latest() > resetMs) throw new Unexpected('too slow for the edge')
  await clock.before(resetMs - 1_000)
  while (clock.earliest() < resetMs + 1_000 && caller.refusalsLeft > 4) {
    await caller.ask()
    await sleep(machine, 250)
  }
  await clock.passed(resetMs + 1_200)
  await caller.exhaust(2, 2 * base + OVER)
  await clock.passed(resetMs + 4_000)
  await caller.exhaust(1, 2 * base + OVER)
  return compared(caller.admitted, 2 * base, ' in two minutes')
}

async function edge(stage: Stage, callers: readonly Caller[]): Promise<Finding> {
  const base = await ready(stage, callers, GOES_ON_MS)
  if (stage.limits.perDay < 2 * base) return cannotTell('the day is too small for two minutes')
  const found = await Promise.all(callers.map((caller) => around(stage, caller, base)))
  const fault = await stage.resetFault
  return fault === undefined ? worstOf(found) : cannotTell(fault)
}

/** Waits as long as it is told, and no longer than the minute. */
async function obeyed({ clock, limits, machine }: Stage, caller: Caller): Promise<Finding> {
  await caller.freshWindow(GOES_ON_MS)
  const refusal = await caller.exhaust(1, 2 * limits.perMinute)
  const seconds = retryAfter(refusal)
  if (!refusal.isRefused || typeof seconds !== 'number') return cannotTell('it is not told')
  const endMs = clock.earliest(refusal.sentMs) + seconds * 1_000
  const resetMs = caller.toldResetMs ?? endMs
  if (endMs > resetMs + 1_000) {
    const needlessMs = Math.round(endMs - resetMs)
    const seen = `Retry-After: ${seconds}, ${(needlessMs / 1_000).toFixed(1)} s too long`
    await clock.passed(resetMs)
    return (await caller.ask()).isRefused ? cannotTell('Reset lies') : broken(seen, { needlessMs })
  }
  await sleep(machine, refusal.receivedMs + seconds * 1_000 - machine.now())
  if (!(await caller.ask()).isRefused) return holds(`admitted after ${seconds} s, as told`)
  const shortMs = Math.max(0, Math.round(resetMs - endMs))
  return broken(`refused again after Retry-After: ${seconds}`, { shortMs })
}

async function waiting(stage: Stage, callers: readonly Caller[]): Promise<Finding> {
  const worst = worstOf(await Promise.all(callers.map((caller) => obeyed(stage, caller))))
  const fault = worst.verdict === 'broken' ? await stage.resetFault : undefined
  return fault === undefined ? worst : cannotTell(fault)
}

/** Refused five times in one minute, then used up in the next. */
async function refusedThenUsed(stage: Stage, caller: Caller, base: number): Promise<Finding> {
  while (caller.admitted < base) await caller.ask()
  const first = caller.journal.at(-1)
  const dayBefore = first && caller.told(first, 'day').remaining
  const before = caller.resetMs
  await caller.exhaust(REFUSALS, base + OVER)
  caller.stillCounts()
  const extendedMs = caller.resetMs - before
  // A day of which nothing is told may have been used before.
  const expected = Math.min(base, dayBefore ?? stage.limits.perDay - caller.everAdmitted)
  const fault = await stage.resetFault
  if (fault !== undefined) return cannotTell(fault)
  if (extendedMs > 1_000) return broken(`the end moved by ${extendedMs / 1_000} s`, { extendedMs })
  await stage.clock.passed(before)
  caller.admitted = 0
  const again = await caller.ask()
  const { resetMs = Infinity } = caller.told(again)
  if (resetMs < before + MINUTE_MS - ROUNDED_MS.delta) return cannotTell('its window slides')
  const dayAfter = caller.told(again, 'day').remaining
  const charged = dayBefore === undefined || dayAfter === undefined ? 0 : dayBefore - 1 - dayAfter
  if (charged > 0 && !again.isRefused)
    return broken(`${REFUSALS} refusals took ${charged} of the day`, { charged })
  if (!again.isRefused) await caller.exhaust(2, expected + OVER)
  if (caller.admitted < expected)
    return compared(caller.admitted, expected, ` after ${REFUSALS} refusals`)
  const isSeen = dayBefore !== undefined || expected < base
  return holds(`no trace of them${isSeen ? '' : '; nothing is told of the day'}`)
}

async function free(stage: Stage, callers: readonly Caller[]): Promise<Finding> {
  const base = await ready(stage, callers, GOES_ON_MS)
  return worstOf(await Promise.all(callers.map((caller) => refusedThenUsed(stage, caller, base))))
}

async function day(stage: Stage, [caller]: readonly Caller[]): Promise<Finding> {
  if (caller === undefined) throw new Unexpected('no key')
  const { perDay } = stage.limits
  const base = await ready(stage, [caller], GOES_ON_MS)
  const isSmall = perDay < 2 * base
  const told: number[] = []
  let expected = perDay
  // Never refused before the day is used up: what a refusal costs is another question.
  while (caller.admitted < (isSmall ? base : Math.min(base, OF_DAY))) {
    const { remaining } = caller.told(await caller.ask(), 'day')
    if (remaining === undefined) continue
    if (told.push(remaining) === 1) expected = caller.everAdmitted + remaining
  }
  const [first = 0] = told
  const wrong = told.findIndex((remaining, at) => remaining !== first - at)
  if (wrong >= 0) return broken(`${first} left, after ${wrong} more ${told[wrong]}`, { first })
  if (isSmall) {
    await caller.nextWindow()
    await caller.exhaust(2, base)
    return compared(caller.everAdmitted, expected, ' in two minutes')
  }
  const unreached = `${perDay} cannot be reached`
  return told.length === 0
    ? cannotTell(`nothing is told of it, and ${unreached}`)
    : holds(`counts down by one from ${first}; ${unreached}`)
}

export const windows: Checks = {
  reset: { keys: 1, run: reset },
  edge: { keys: 2, run: edge },
  'retry-after': { keys: 2, run: waiting },
  'refused-free': { keys: 2, run: free },
  day: { keys: 1, run: day },
}
