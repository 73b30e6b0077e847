/** Bounds how many log lines a second may come of what anyone can cause at will. */

export type LineBudget = ReturnType<typeof createLineBudget>

/** So many lines a second; how many went beyond is told within the next second, or by settle(). */
export function createLineBudget(perSecond: number, suppressed: (lines: number) => void) {
  let second = 0
  let spent = 0
  let telling: NodeJS.Timeout | undefined
  /** Tells at once what was left out. */
  function settle(): void {
    clearTimeout(telling)
    telling = undefined
    if (spent > perSecond) suppressed(spent - perSecond)
    spent = 0
  }
  return {
    settle,
    /** Whether one more line may be written. */
    spend(): boolean {
      const now = Math.floor(Date.now() / 1000)
      if (now !== second) {
        settle()
        second = now
      }
      if (++spent <= perSecond) return true
      // The flood may end here, and then nobody would come by to tell of it.
      telling ??= setTimeout(settle, 1_000).unref()
      return false
    },
  }
}

/** One line a second at most, with how often it happened and the last time's particulars. */
export function createTally<Particulars>(tell: (count: number, last: Particulars) => void) {
  let count = 0
  let last: Particulars | undefined
  let telling: NodeJS.Timeout | undefined
  /** Tells at once. */
  function settle(): void {
    clearTimeout(telling)
    telling = undefined
    if (last !== undefined) tell(count, last)
    count = 0
    last = undefined
  }
  return {
    settle,
    add(particulars: Particulars): void {
      count += 1
      last = particulars
      telling ??= setTimeout(settle, 1_000).unref()
    },
  }
}
