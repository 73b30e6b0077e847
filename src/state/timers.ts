/** Waiting, as an argument: tests bring their own. */
import { setTimeout as delay } from 'node:timers/promises'

export interface Timers {
  /** Runs the task again and again, without keeping the process alive; the result stops it. */
  every(intervalMs: number, task: () => void): () => void
  after(delayMs: number): Promise<void>
}

export const systemTimers: Timers = {
  every: (intervalMs, task) => {
    const timer = setInterval(task, intervalMs).unref()
    return () => clearInterval(timer)
  },
  after: (delayMs) => delay(delayMs, undefined, { ref: false }),
}
