/** Checks that a minute admits exactly as many requests of a key as its limit says, and that keys share no limit. */
import type { Caller } from './caller.ts'
import { broken, cannotTell, compared, holds, worstOf } from './check.ts'
import type { Checks, Finding, Setup } from './check.ts'
import { Unexpected } from './connection.ts'

/** Time that must be left of a minute; more than enough for a burst. */
const TIME_LEFT_MS = 20_000
/** Admissions above the limit after which a check stops counting. */
export const MOST_OVER = 15
const AT_ONCE = 10
/** Requests of the first key while the second is watched. */
const USED = 5

/** Brings each key into a fresh minute; resolves with the number of requests that a minute admits. */
export async function ready(setup: Setup, callers: readonly Caller[], timeLeftMs: number) {
  const fresh = () => Promise.all(callers.map((caller) => caller.freshWindow(timeLeftMs)))
  const [base] = await Promise.all([setup.base, fresh()])
  // The number may have become known only when the minute was nearly over.
  const ends = callers.map(({ lastResetMs = Infinity, admitted }) => admitted > 0 && lastResetMs)
  if (ends.some((endMs) => endMs !== false && endMs < setup.clock.latest() + timeLeftMs / 2))
    await fresh()
  return base
}

/** Requests admitted in this minute. Throws if it may have ended meanwhile. */
function counted(caller: Caller): number {
  caller.stillCounts()
  return caller.admitted
}

async function exact(setup: Setup, [caller]: readonly Caller[]): Promise<Finding> {
  if (caller === undefined) throw new Unexpected('no key')
  const { perMinute } = setup.limits
  await caller.freshWindow(TIME_LEFT_MS)
  await caller.exhaust(3, perMinute + MOST_OVER)
  return compared(counted(caller), perMinute)
}

/** Uses up all but one request of the minute, then sends up to ten at once for the last. */
async function race(caller: Caller, base: number): Promise<Finding> {
  for (let left = base - 1 - caller.admitted; left > 0; left = base - 1 - caller.admitted) {
    const answers = await caller.askAtOnce(Math.min(left, caller.refusalsLeft, AT_ONCE))
    if (answers.some(({ isRefused }) => isRefused)) break
  }
  await caller.askAtOnce(caller.refusalsLeft)
  return compared(counted(caller), base)
}

async function concurrent(setup: Setup, callers: readonly Caller[]): Promise<Finding> {
  const base = await ready(setup, callers, TIME_LEFT_MS)
  return worstOf(await Promise.all(callers.map((caller) => race(caller, base))))
}

async function methods(setup: Setup, [caller]: readonly Caller[]): Promise<Finding> {
  if (caller === undefined) throw new Unexpected('no key')
  const base = await ready(setup, [caller], TIME_LEFT_MS)
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

export const admission: Checks = {
  exact: { keys: 1, run: exact },
  concurrent: { keys: 3, run: concurrent },
  methods: { keys: 1, run: methods },
}

/** Checks that one key takes nothing from another. It runs first: if it is broken, the other checks mean nothing. */
export async function isolation(
  { limits }: Setup,
  [one, other]: readonly Caller[],
): Promise<Finding> {
  if (one === undefined || other === undefined) throw new Unexpected('no keys')
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
