/** Checks of the windows: where a minute ends, what is admitted around its end, and what refusals cost. */
import { MINUTE_MS, windows as all } from '../../config/time.ts'
import { MOST_OVER, ready } from './admission.ts'
import type { Caller } from './caller.ts'
import { broken, cannotTell, compared, holds } from './check.ts'
import type { Checks, Finding, Setup } from './check.ts'
import { Unexpected } from './connection.ts'
import { sleep } from './machine.ts'
import { header, retryAfter, xRateLimit, type Limits } from './standing.ts'

/** Time that must be left of a minute when a check begins to use it up. */
const TIME_LEFT_MS = 25_000
/** Times before Reset at which a request must be refused. */
const EARLY_MS = [9_000, 6_000, 4_000]
/** Reset may be this much later than the end: it is rounded up by up to a second, and so is the Date that a delta is added to. */
const ROUNDED_MS = { unix: 1_250, delta: 2_000 }
/** Times after Reset at which a request is tried again. */
const LATE_MS = [0, 250, 1_000, 5_000]
const SAME_MINUTE_MS = 30_000
const REFUSALS = 5
/** Requests that suffice to see the day count down. */
const DAY_SAMPLE = 20
const [, ...longer] = all

/** Time between the earliest and the latest Reset that were reported for the last minute. */
export function spreadMs(caller: Caller): number {
  const reported = caller.journal.flatMap((answer) => caller.reported(answer).resetMs ?? [])
  const last = Math.max(...reported)
  return last - Math.min(last, ...reported.filter((resetMs) => last - resetMs < SAME_MINUTE_MS))
}

/** Whether every Reset of the minute was reported as a Unix time, so that no Date was added to it. */
export const isUnix = ({ journal }: Caller, { perMinute }: Limits): boolean =>
  journal.map(xRateLimit).every(({ limit, isDelta }) => limit === perMinute && !isDelta)

/** Detects a Date and a Reset of different clocks. With one clock, a Reset at a whole minute is at most 62 s after Date: it is rounded up, and Date down. */
export function clocksFault(caller: Caller, limits: Limits): string | undefined {
  const isProven = caller.journal.some((answer) => {
    const { resetMs = NaN } = xRateLimit(answer)
    const heldUpMs = answer.receivedMs - answer.sentMs
    const aheadMs = resetMs - Date.parse(header(answer, 'date') ?? '') - heldUpMs
    return resetMs % MINUTE_MS === 0 && aheadMs > MINUTE_MS + 2_000
  })
  return isProven && isUnix(caller, limits) ? 'Date and Reset are of different clocks' : undefined
}

async function reset(setup: Setup, caller: Caller): Promise<Finding> {
  const { clock, limits } = setup
  await caller.freshWindow(TIME_LEFT_MS)
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
    // If this machine was asleep, the answer may have come after the end.
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

/** Counts the requests admitted in two consecutive minutes, most of them sent around the edge between the two. */
async function edge(setup: Setup, caller: Caller): Promise<Finding> {
  const { clock, limits, machine } = setup
  const base = await ready(setup, caller, TIME_LEFT_MS)
  const small = longer.find(({ limit }) => limits[limit] < 2 * base)
  if (small !== undefined) return cannotTell(`the ${small.name} is too small for two minutes`)
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
  await caller.exhaust(2, 2 * base + MOST_OVER)
  await clock.passed(resetMs + 4_000)
  await caller.exhaust(1, 2 * base + MOST_OVER)
  const fault = await setup.resetFault
  return fault === undefined
    ? compared(caller.admitted, 2 * base, ' in two minutes')
    : cannotTell(fault)
}

/** Waits for Retry-After, but no longer than until Reset. */
async function obeyed({ clock, limits, machine }: Setup, caller: Caller): Promise<Finding> {
  await caller.freshWindow(TIME_LEFT_MS)
  const refusal = await caller.exhaust(1, 2 * limits.perMinute)
  const seconds = retryAfter(refusal)
  if (!refusal.isRefused || typeof seconds !== 'number') return cannotTell('it is not told')
  const endMs = clock.earliest(refusal.sentMs) + seconds * 1_000
  const resetMs = caller.lastResetMs ?? endMs
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

async function waiting(setup: Setup, caller: Caller): Promise<Finding> {
  const found = await obeyed(setup, caller)
  const fault = found.verdict === 'broken' ? await setup.resetFault : undefined
  return fault === undefined ? found : cannotTell(fault)
}

/** Causes five refusals in one minute, then uses up the next. */
async function free(setup: Setup, caller: Caller): Promise<Finding> {
  const base = await ready(setup, caller, TIME_LEFT_MS)
  while (caller.admitted < base) await caller.ask()
  const first = caller.journal.at(-1)
  const dayBefore = first && caller.reported(first, 'day').remaining
  const before = caller.resetMs
  await caller.exhaust(REFUSALS, base + MOST_OVER)
  caller.stillCounts()
  const extendedMs = caller.resetMs - before
  // A window that no field reports may have been used before.
  const rests = longer.map(
    ({ name, limit }) =>
      (first && caller.reported(first, name).remaining) ??
      setup.limits[limit] - caller.everAdmitted,
  )
  const expected = Math.min(base, ...rests)
  const fault = await setup.resetFault
  if (fault !== undefined) return cannotTell(fault)
  if (extendedMs > 1_000) return broken(`the end moved by ${extendedMs / 1_000} s`, { extendedMs })
  await setup.clock.passed(before)
  caller.admitted = 0
  const again = await caller.ask()
  const { resetMs = Infinity } = caller.reported(again)
  if (resetMs < before + MINUTE_MS - ROUNDED_MS.delta) return cannotTell('its window slides')
  const dayAfter = caller.reported(again, 'day').remaining
  const charged = dayBefore === undefined || dayAfter === undefined ? 0 : dayBefore - 1 - dayAfter
  if (charged > 0 && !again.isRefused)
    return broken(`${REFUSALS} refusals took ${charged} of the day`, { charged })
  if (!again.isRefused) await caller.exhaust(2, expected + MOST_OVER)
  if (caller.admitted < expected)
    return compared(caller.admitted, expected, ` after ${REFUSALS} refusals`)
  const isSeen = dayBefore !== undefined || expected < base
  return holds(`no trace of them${isSeen ? '' : '; nothing is told of the day'}`)
}

async function day(setup: Setup, caller: Caller): Promise<Finding> {
  const { perDay } = setup.limits
  const base = await ready(setup, caller, TIME_LEFT_MS)
  const isSmall = perDay < 2 * base
  const reported: number[] = []
  let expected = perDay
  // Refusals are avoided until the day is used up: another check judges what they cost.
  while (caller.admitted < (isSmall ? base : Math.min(base, DAY_SAMPLE))) {
    const { remaining } = caller.reported(await caller.ask(), 'day')
    if (remaining === undefined) continue
    if (reported.push(remaining) === 1) expected = caller.everAdmitted + remaining
  }
  const [first = 0] = reported
  const wrong = reported.findIndex((remaining, at) => remaining !== first - at)
  if (wrong >= 0) return broken(`${first} left, after ${wrong} more ${reported[wrong]}`, { first })
  if (isSmall) {
    await caller.nextWindow()
    await caller.exhaust(2, base)
    return compared(caller.everAdmitted, expected, ' in two minutes')
  }
  const unreached = `${perDay} cannot be reached`
  return reported.length === 0
    ? cannotTell(`nothing is told of it, and ${unreached}`)
    : holds(`counts down by one from ${first}; ${unreached}`)
}

export const windows: Checks = { reset, edge, 'retry-after': waiting, 'refused-free': free, day }
