/** Limits how many log lines a second anyone can cause at will. */

export type LineBudget = ReturnType<typeof createLineBudget>

/** One key gets at most this part of a budget, so that its lines leave room for those of others. */
const SHARE_OF_A_KEY = 1 / 10

/** Allows `perSecond` lines a second; the number suppressed is reported within a second, or by settle(). */
export function createLineBudget(perSecond: number, suppressed: (lines: number) => void) {
  const share = Math.ceil(perSecond * SHARE_OF_A_KEY)
  const { add, settle } = createTally(suppressed)
  let second = 0
  let spent = 0
  /** Lines of each key in this second; has at most as many entries as lines were written. */
  const spentByKey = new Map<string, number>()
  function isWithin(key: string | undefined): boolean {
    if (spent >= perSecond) return false
    if (key !== undefined) {
      const before = spentByKey.get(key) ?? 0
      if (before >= share) return false
      spentByKey.set(key, before + 1)
    }
    spent += 1
    return true
  }
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
      const isAllowed = isWithin(key)
      if (!isAllowed) add()
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
