/** Timers: as an argument, as tests bring their own, and those that bound a call. */
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

/** After a stall of the event loop timers run before messages are read, so an answer that has already arrived gets its turn first. */
export const afterTurn = (delayMs: number, task: () => void): NodeJS.Timeout =>
  setTimeout(() => setImmediate(task), delayMs)

/** Rejects with the fault after timeoutMs; the call itself may still be carried out. */
export function bounded<Reply>(
  reply: Promise<Reply>,
  timeoutMs: number,
  fault: () => Error,
): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const timer = afterTurn(timeoutMs, () => reject(fault()))
    reply.then(resolve, reject).finally(() => clearTimeout(timer))
  })
}

/** Resolves when the work has ended, well or not, or after timeoutMs; it may still go on then. */
export const endedWithin = (work: Promise<unknown>, timeoutMs: number): Promise<unknown> =>
  bounded(work, timeoutMs, () => new Error('late')).catch(() => undefined)
