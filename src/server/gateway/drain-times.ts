/** How long a process that drains keeps connections open on which no request is under way: the next may be on the wire already. */

import { setTimeout as sleep } from 'node:timers/promises'
import type { Config } from '../../config/config.ts'
import type { Log } from '../../core/record/log.ts'

type Timeouts = Config['server']['timeouts']

/** At a stop: a client that hears "Connection: close" on its next answer loses nothing. */
const STOP_IDLE_AT_MOST_MS = 200
/** In a roll there is no hurry. */
const ROLL_IDLE_AT_MOST_MS = 3_000

export const stopIdleMs = (drainMs: number): number => Math.min(STOP_IDLE_AT_MOST_MS, drainMs / 2)
export const rollIdleMs = (drainMs: number): number => Math.min(ROLL_IDLE_AT_MOST_MS, drainMs / 2)

/** Not ready, and still taking requests: whoever spreads them must have seen it before connections are refused. */
export async function drainDelay(log: Log, { drainDelayMs }: Timeouts): Promise<void> {
  if (drainDelayMs === 0) return
  log.drainDelayed({ delayMs: drainDelayMs })
  await sleep(drainDelayMs)
}
