/** Long work in this thread, in slices between which requests are served. */
import { setImmediate } from 'node:timers/promises'

export const SLICE_MS = 2

export async function inSlices<Result>(steps: Generator<void, Result>): Promise<Result> {
  for (let endMs = performance.now() + SLICE_MS; ;) {
    const { done, value } = steps.next()
    if (done === true) return value
    if (performance.now() < endMs) continue
    await setImmediate()
    endMs = performance.now() + SLICE_MS
  }
}
