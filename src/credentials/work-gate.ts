/** Bounds how much costly work runs and waits at once. */

/** `running`: works at once. `waiting`: works in the queue, first come, first served. */
export function createWorkGate(limits: { readonly running: number; readonly waiting: number }) {
  let running = 0
  const queue: (() => void)[] = []
  const enter = (): Promise<void> | undefined => {
    if (running < limits.running) {
      running++
      return undefined
    }
    return new Promise((resolve) => queue.push(resolve))
  }
  const leave = (): void => {
    const next = queue.shift()
    // The place passes on to the next in line, so that a newcomer cannot take it first.
    if (next) next()
    else running--
  }
  return {
    /** Runs the work when its turn comes, and answers what it answers; undefined, at once and without running it, when too much waits. */
    run: async <T>(work: () => Promise<T>): Promise<T | undefined> => {
      if (running >= limits.running && queue.length >= limits.waiting) return undefined
      await enter()
      try {
        return await work()
      } finally {
        leave()
      }
    },
  }
}
