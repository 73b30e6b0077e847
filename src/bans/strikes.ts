/** Counts strikes per key over all processes, and says when a key has earned a ban. */
import type { BansConfig } from '../config/config.ts'
import type { Counter } from '../counters/counter.ts'

export interface Strikes {
  /** Counts one strike. Never throws, never waits. */
  strike(keyId: string): void
  /** Resolves when everything told so far has been counted. */
  settled(): Promise<void>
}

export interface StrikesOptions {
  readonly policy: Pick<BansConfig, 'strikes' | 'withinMs'>
  /** Of this process, of the workers of this machine, or of all hosts. */
  readonly counter: Counter
  readonly onBan: (keyId: string) => void
  /** Keys counted at once in this process; strikes of further keys are let go until others are forgotten. */
  readonly maxKeys?: number
}

/** What this process knows of one key. Kept over many strikes, so that one of them costs a look-up and an addition. */
interface Tally {
  readonly keyId: string
  /** Of performance.now(): its count has ended by then. */
  untilMs: number
  /** As the counter last told, strikes of other processes included. */
  total: number
  /** Strikes the counter has not been told of. */
  untold: number
  isCalling: boolean
  /** Among those to be told with the next tick. */
  isLate: boolean
}

/** A flood of strikes is told in one call per key and tick, unless it may be the ban's last one: that is told at once. */
const TICK_MS = 100

/** `withinMs` runs from a key's first strike, in whole seconds (rounded up). */
export function createStrikes(options: StrikesOptions): Strikes {
  const { policy, counter, onBan, maxKeys = 10_000 } = options
  /** In the order in which they end. */
  const tallies = new Map<string, Tally>()
  let late: Tally[] = []
  let tick: NodeJS.Timeout | undefined
  const underway = new Set<Promise<void>>()

  const tallyOf = (keyId: string): Tally | undefined => {
    const nowMs = performance.now()
    const known = tallies.get(keyId)
    if (known !== undefined && nowMs < known.untilMs) return known
    for (const [oldest, { untilMs }] of tallies) {
      if (nowMs < untilMs) break
      tallies.delete(oldest)
    }
    if (tallies.size >= maxKeys) return undefined
    const untilMs = nowMs + policy.withinMs + 1_000
    const tally = { keyId, untilMs, total: 0, untold: 0, isCalling: false, isLate: false }
    tallies.set(keyId, tally)
    return tally
  }

  const count = async (tally: Tally): Promise<void> => {
    const { keyId } = tally
    while (tally.untold > 0) {
      const points = tally.untold
      tally.untold = 0
      tally.total = await counter.add(keyId, points)
      if (tally.total >= policy.strikes) {
        tally.untold = 0
        tally.total = 0
        onBan(keyId)
        await counter.reset(keyId)
      }
      if (!mayBan(tally)) break
    }
  }

  const mayBan = ({ total, untold }: Tally): boolean => total + untold >= policy.strikes

  const tell = (tally: Tally): void => {
    tally.isCalling = true
    const call = count(tally)
      // Strikes that neither the store nor memory could count are let go: the requests they stand for were refused all the same.
      .catch(() => void (tally.untold = 0))
      .then(() => {
        tally.isCalling = false
        underway.delete(call)
        if (tally.untold > 0) tellLate(tally)
      })
    underway.add(call)
  }

  const tellLate = (tally: Tally): void => {
    if (tally.isLate) return
    tally.isLate = true
    late.push(tally)
    tick ??= setTimeout(flush, TICK_MS).unref()
  }

  const flush = (): void => {
    clearTimeout(tick)
    tick = undefined
    const due = late
    late = []
    for (const tally of due) {
      tally.isLate = false
      if (!tally.isCalling && tally.untold > 0) tell(tally)
    }
  }

  return {
    strike: (keyId) => {
      const tally = tallyOf(keyId)
      if (tally === undefined) return
      tally.untold += 1
      if (tally.isCalling) return
      // The first one at once, so that other processes know of the key.
      if (tally.total === 0 || mayBan(tally)) tell(tally)
      else tellLate(tally)
    },
    settled: async () => {
      for (flush(); underway.size > 0; flush()) await Promise.all(underway)
    },
  }
}
