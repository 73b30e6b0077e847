/** Stands for store.file and the thread that writes it: what was written survives the process, and each call takes its time. */
import type { Row } from '../../src/state/sqlite/quota-journal.ts'
import type { Host } from './host.ts'
import type { Chance, VirtualTime } from './virtual-time.ts'

export type Disk = ReturnType<typeof createDisk>

const SLOWEST_MS = 12

/** As a new process finds them: what may have been taken ahead counts as taken, in the windows that run now. */
function foundAfterACrash(
  rows: Map<string, Row>,
  now: { minuteIndex: number; dayIndex: number },
): readonly Row[] {
  for (const [client, { minuteIndex, minuteTaken, dayIndex, dayTaken, ahead }] of rows)
    if (ahead > 0)
      rows.set(client, {
        client,
        minuteIndex: Math.max(minuteIndex, now.minuteIndex),
        minuteTaken: ahead + (minuteIndex < now.minuteIndex ? 0 : minuteTaken),
        dayIndex: Math.max(dayIndex, now.dayIndex),
        dayTaken: ahead + (dayIndex < now.dayIndex ? 0 : dayTaken),
        ahead: 0,
      })
  return [...rows.values()]
}

export function createDisk({ time, chance }: { time: VirtualTime; chance: Chance }) {
  const rows = new Map<string, Row>()
  /** Nothing is written before this. */
  let hangsUntilMs = 0
  let failsUntilMs = 0

  return {
    rows,
    get isIll() {
      return time.nowMs < Math.max(hangsUntilMs, failsUntilMs)
    },
    hang: (forMs: number): void => void (hangsUntilMs = time.nowMs + forMs),
    fail: (forMs: number): void => void (failsUntilMs = time.nowMs + forMs),

    load: (now: Parameters<typeof foundAfterACrash>[1]) => foundAfterACrash(rows, now),

    /** As the process sees it: one call after the other; what it had not begun when it died is not done. */
    openedBy: (host: Host) => {
      let freeAtMs = time.nowMs
      const call = (change: () => void): Promise<void> =>
        new Promise((resolve, reject) => {
          const beginsMs = Math.max(freeAtMs, hangsUntilMs, time.nowMs)
          freeAtMs = beginsMs + chance.between(0.05, SLOWEST_MS)
          time.at(chance.between(beginsMs, freeAtMs), () => {
            if (host.isDead) return
            const isWritten = time.nowMs >= failsUntilMs
            if (isWritten) change()
            time.at(freeAtMs, () =>
              host.deliver('io', () => (isWritten ? resolve() : reject(new Error('disk full')))),
            )
          })
        })
      return {
        find: () => Promise.reject(new Error('memory has forgotten nobody')),
        save: (saved: readonly Row[]) =>
          call(() => {
            for (const row of saved) rows.set(row.client, row)
          }),
        removeDaysBefore: (dayIndex: number) =>
          call(() => {
            for (const [client, row] of rows) if (row.dayIndex < dayIndex) rows.delete(client)
          }),
        dropAhead: () =>
          call(() => {
            for (const [client, row] of rows) rows.set(client, { ...row, ahead: 0 })
          }),
        close: async () => undefined,
      }
    },
  }
}
