/** Checks that a minute admits exactly as many requests of a key as its limit says, and that keys share no limit. */
import type { Caller } from './caller.ts'
import { broken, cannotTell, compared, holds } from './check.ts'
import type { Checks, Finding, Setup } from './check.ts'
import { sleep } from './machine.ts'

/** Time that must be left of a minute; more than enough for a burst. */
const TIME_LEFT_MS = 20_000
/** Admissions above the limit after which a check stops counting. */
export const MOST_OVER = 15
const AT_ONCE = 10
/** Requests of the first key while the second is watched. */
const USED = 5
/** How often `exact` asks again while its minute runs. */
const ROUNDS = 5

/** Brings the key into a fresh minute; resolves with the number of requests that a minute admits. */
export async function ready(setup: Setup, caller: Caller, timeLeftMs: number): Promise<number> {
  const [base] = await Promise.all([setup.base, caller.freshWindow(timeLeftMs)])
  // The number may have become known only when the minute was nearly over.
  const { lastResetMs = Infinity, admitted } = caller
  if (admitted > 0 && lastResetMs < setup.clock.latest() + timeLeftMs / 2)
    await caller.freshWindow(timeLeftMs)
  return base
}

/** Requests admitted in this minute. Throws if it may have ended meanwhile. */
function counted(caller: Caller): number {
  caller.stillCounts()
  return caller.admitted
}

async function exact(setup: Setup, caller: Caller): Promise<Finding> {
  const { perMinute } = setup.limits
  await caller.freshWindow(TIME_LEFT_MS)
  await caller.exhaust(3, perMinute + MOST_OVER)
  const atOnce = counted(caller)
  setup.setBase(atOnce)
  const admitted = atOnce + (await admittedLater(setup, caller))
  const isLeaky = admitted > Math.max(atOnce, perMinute)
  const why = isLeaky ? ': a leaky bucket, which has room again within the minute' : ''
  return compared(admitted, perMinute, why)
}

/** Goes on asking until the minute is over; returns how many more it admits. */
async function admittedLater(
  { limits: { perMinute }, clock, machine }: Setup,
  caller: Caller,
): Promise<number> {
  const rounds: number[] = []
  for (let left = ROUNDS; left > 0 && caller.refusalsLeft > 1; left--) {
    await sleep(machine, (caller.countsUntilMs - clock.latest()) / (left + 1))
    const before = caller.admitted
    await caller.exhaust(1, before + perMinute)
    if (clock.latest() > caller.countsUntilMs) break
    rounds.push(caller.admitted - before)
  }
  // Many at once are those of the next minute: no Reset told of its beginning, or a wrong one, which another check judges.
  const most = Math.max(0, ...rounds)
  const ofNext = most >= perMinute / 2 ? most : 0
  return rounds.reduce((sum, admitted) => sum + admitted, 0) - ofNext
}

/** Uses up all but one request of the minute, then sends up to ten at once for the last. */
async function concurrent(setup: Setup, caller: Caller): Promise<Finding> {
  const base = await ready(setup, caller, TIME_LEFT_MS)
  for (let left = base - 1 - caller.admitted; left > 0; left = base - 1 - caller.admitted) {
    const answers = await caller.askAtOnce(Math.min(left, caller.refusalsLeft, AT_ONCE))
    if (answers.some(({ isRefused }) => isRefused)) break
  }
  await caller.askAtOnce(caller.refusalsLeft)
  return compared(counted(caller), base)
}

async function methods(setup: Setup, caller: Caller): Promise<Finding> {
  const base = await ready(setup, caller, TIME_LEFT_MS)
  const before = caller.journal.length
  // The numbers differ, so that one method cannot make up for the other.
  for (let count = 0; count < 4; count++) await caller.ask('HEAD')
  for (let count = 0; count < 3; count++) await caller.ask('OPTIONS')
  // A 4xx may come from the gateway or from the service, so it may be charged or not.
  const asked = caller.journal.slice(before)
  const unclear = asked.filter(({ status, isRefused }) => status >= 400 && !isRefused).length
  await caller.exhaust(2, base + MOST_OVER)
  const admitted = counted(caller)
  return unclear > 0 && admitted === base - unclear
    ? holds('HEAD is charged; OPTIONS is answered 4xx, and charged')
    : compared(admitted, base)
}

export const admission: Checks = { exact, concurrent, methods }

/** Checks that one key takes nothing from another. It runs first: if it is broken, the other checks mean nothing. */
export async function isolation({ limits }: Setup, one: Caller, other: Caller): Promise<Finding> {
  if ((await other.ask()).isRefused) await other.nextWindow()
  const before = other.reported(await other.ask())
  for (let count = 0; count < USED; count++) await one.ask()
  const last = await other.ask()
  const after = other.reported(last)
  if (before.remaining === undefined || after.remaining === undefined) {
    await one.exhaust(1, 2 * limits.perMinute)
    const isFree = !(await other.ask()).isRefused
    return isFree ? holds('a key beside a used up one is admitted') : broken('it is refused too')
  }
  const isSame = Math.abs((before.resetMs ?? 0) - (after.resetMs ?? 0)) < 10_000
  if (!isSame) return cannotTell('the minute ended meanwhile')
  const taken = before.remaining - after.remaining - 1
  const isTouched = last.isRefused || taken >= USED
  const seen = `${USED} requests of one took ${isTouched ? taken : 0} of another`
  return isTouched ? broken(seen, { taken }) : holds(seen)
}
