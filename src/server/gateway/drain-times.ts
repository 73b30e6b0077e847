/** How long a draining process keeps connections open that have no request under way: the next request may be on the wire already. */

import { setTimeout as sleep } from 'node:timers/promises'
import type { Config } from '../../config/config.ts'
import type { Log } from '../../core/record/log.ts'

type Timeouts = Config['server']['timeouts']

/** Limit at a stop: a client that receives "Connection: close" with its next answer loses nothing. */
const STOP_IDLE_AT_MOST_MS = 200
/** Limit in a roll, where there is no hurry. */
const ROLL_IDLE_AT_MOST_MS = 3_000

export const stopIdleMs = (drainMs: number): number => Math.min(STOP_IDLE_AT_MOST_MS, drainMs / 2)
export const rollIdleMs = (drainMs: number): number => Math.min(ROLL_IDLE_AT_MOST_MS, drainMs / 2)

/** Reports not ready and still takes requests: the load balancer must have seen it before connections are refused. */
export async function drainDelay(log: Log, { drainDelayMs }: Timeouts): Promise<void> {
  if (drainDelayMs === 0) return
  log.drainDelayed({ delayMs: drainDelayMs })
  await sleep(drainDelayMs)
}
