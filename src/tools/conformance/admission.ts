/** Exactly as many are admitted as the limit says: of one key, in one minute. */
import type { Caller } from './caller.ts'
import { broken, cannotTell, compared, holds, worstOf } from './check.ts'
import type { Checks, Finding, Stage } from './check.ts'
import { Unexpected } from './connection.ts'

/** More than enough for a burst. */
const GOES_ON_MS = 20_000
/** Beyond the limit this many are counted, then it is enough. */
export const OVER = 15
const AT_ONCE = 10
/** By the other key. */
const USED = 5

/** Each key in a fresh minute; resolves with how many that admits. */
export async function ready(stage: Stage, callers: readonly Caller[], goesOnForMs: number) {
  const fresh = () => Promise.all(callers.map((caller) => caller.freshWindow(goesOnForMs)))
  const [base] = await Promise.all([stage.base, fresh()])
  // It may have been known only when the minute was nearly over.
  const ends = callers.map(({ toldResetMs = Infinity, admitted }) => admitted > 0 && toldResetMs)
  if (ends.some((endMs) => endMs !== false && endMs < stage.clock.latest() + goesOnForMs / 2))
    await fresh()
  return base
}

/** Throws where the minute may have ended meanwhile. */
function counted(caller: Caller): number {
  caller.stillCounts()
  return caller.admitted
}

async function exact(stage: Stage, [caller]: readonly Caller[]): Promise<Finding> {
  if (caller === undefined) throw new Unexpected('no key')
  const { perMinute } = stage.limits
  await caller.freshWindow(GOES_ON_MS)
  await caller.exhaust(3, perMinute + OVER)
  return compared(counted(caller), perMinute)
}

/** All but one, then ten at once for that one. */
async function race(caller: Caller, base: number): Promise<Finding> {
  for (let left = base - 1 - caller.admitted; left > 0; left = base - 1 - caller.admitted) {
    const answers = await caller.askAtOnce(Math.min(left, caller.refusalsLeft, AT_ONCE))
    if (answers.some(({ isRefused }) => isRefused)) break
  }
  await caller.askAtOnce(caller.refusalsLeft)
  return compared(counted(caller), base)
}

async function concurrent(stage: Stage, callers: readonly Caller[]): Promise<Finding> {
  const base = await ready(stage, callers, GOES_ON_MS)
  return worstOf(await Promise.all(callers.map((caller) => race(caller, base))))
}

async function methods(stage: Stage, [caller]: readonly Caller[]): Promise<Finding> {
  if (caller === undefined) throw new Unexpected('no key')
  const base = await ready(stage, [caller], GOES_ON_MS)
  const before = caller.journal.length
  // Not as many of one as of the other, so that neither can make up for it.
  for (let count = 0; count < 4; count++) await caller.ask('HEAD')
  for (let count = 0; count < 3; count++) await caller.ask('OPTIONS')
  // One that is answered 4xx may be the gateway's own refusal, or the service's: charged or not.
  const asked = caller.journal.slice(before)
  const unclear = asked.filter(({ status, isRefused }) => status >= 400 && !isRefused).length
  await caller.exhaust(2, base + OVER)
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

/** Asked before all others: where it is broken, they mean nothing. */
export async function isolation(
  { limits }: Stage,
  [one, other]: readonly Caller[],
): Promise<Finding> {
  if (one === undefined || other === undefined) throw new Unexpected('no keys')
  if ((await other.ask()).isRefused) await other.nextWindow()
  const before = other.told(await other.ask())
  for (let count = 0; count < USED; count++) await one.ask()
  const last = await other.ask()
  const after = other.told(last)
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
