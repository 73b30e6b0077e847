/** Limits how many log lines a second anyone can cause at will. */

export type LineBudget = ReturnType<typeof createLineBudget>

/** Lines a second, so that a flood cannot fill the disk. */
const LINES = 1_000
/** One key gets at most so many, so that its lines leave room for those of others. */
const LINES_OF_A_KEY = 100

/** The number of lines suppressed is reported within a second, or by settle(). */
export function createLineBudget(suppressed: (lines: number) => void) {
  const { add, settle } = createTally(suppressed)
  let second = 0
  let spent = 0
  /** Lines of each key in this second; has at most as many entries as lines were written. */
  const spentByKey = new Map<string, number>()
  return {
    settle,
    /** Returns whether one more line may be written. key: the API key whose share the line uses; undefined: no share applies. */
    spend(key?: string): boolean {
      const now = Math.floor(Date.now() / 1000)
      if (now !== second) {
        second = now
        spent = 0
        spentByKey.clear()
      }
      const ofKey = key === undefined ? 0 : (spentByKey.get(key) ?? 0)
      const isAllowed = spent < LINES && ofKey < LINES_OF_A_KEY
      if (!isAllowed) add()
      else {
        spent += 1
        if (key !== undefined) spentByKey.set(key, ofKey + 1)
      }
      return isAllowed
    },
  }
}

/** Reports at most once a second how often something happened, with the particulars of the last time. settle: reports at once. */
export function createTally<Particulars = void>(
  report: (count: number, last: Particulars) => void,
) {
  let count = 0
  let last: Particulars
  let timer: NodeJS.Timeout | undefined
  const settle = (): void => {
    clearTimeout(timer)
    timer = undefined
    if (count > 0) report(count, last)
    count = 0
  }
  return {
    settle,
    add(particulars: Particulars): void {
      count += 1
      last = particulars
      timer ??= setTimeout(settle, 1_000).unref()
    },
  }
}
