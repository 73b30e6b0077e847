/** Finds workers that take requests but answer nothing any more, as their event loop hangs. */
import { url as debuggerUrl } from 'node:inspector'
import type { WorkerProcess } from './worker-process.ts'

export interface WatchdogOptions {
  readonly everyMs: number
  /** Beats in a row without an answer after which a worker counts as hanging. */
  readonly silentBeats: number
}

export const defaultWatchdog: WatchdogOptions = { everyMs: 1_000, silentBeats: 10 }

/** Returns the call that ends it. */
export function watchWorkers<Worker extends Pick<WorkerProcess, 'beat' | 'resetBeats'>>(
  { everyMs, silentBeats }: WatchdogOptions,
  workers: () => Iterable<Worker>,
  onHung: (worker: Worker) => void,
): () => void {
  let lastMs = performance.now()
  const timer = setInterval(() => {
    const nowMs = performance.now()
    // A late beat: this process was stopped, starved or suspended, and so were the workers; or their answers are still unread.
    const isLate = nowMs - lastMs > 2 * everyMs
    lastMs = nowMs
    for (const worker of workers()) {
      if (isLate || debuggerUrl() !== undefined) worker.resetBeats()
      if (worker.beat() === silentBeats) onHung(worker)
    }
  }, everyMs).unref()
  return () => clearInterval(timer)
}
