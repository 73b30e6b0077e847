/** Timers as an argument, as tests bring their own. */
import { setTimeout as delay } from 'node:timers/promises'

export interface Timers {
  /** Runs the task at this interval, without keeping the process alive; the function returned stops it. */
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
