/** For tests that count by the real clock: the window they count in must not end meanwhile. */
import { setTimeout as sleep } from 'node:timers/promises'

const [minuteMs, dayMs] = [60_000, 86_400_000]

async function windowWithAtLeast(windowMs: number, leftMs: number): Promise<void> {
  const left = windowMs - (Date.now() % windowMs)
  if (left < leftMs) await sleep(left + 50)
}

/** Time left in the running UTC minute is at least this, waiting for the next one if need be. */
export const minuteWithAtLeast = (leftMs = 10_000): Promise<void> =>
  windowWithAtLeast(minuteMs, leftMs)

/** As of the minute. Whatever counts within a minute is in one day, too. */
export const dayWithAtLeast = (leftMs: number): Promise<void> => windowWithAtLeast(dayMs, leftMs)
