/** Virtual time: a queue of moments, played in order, moments at the same time in an order of chance; and the chance itself. */

export type Chance = ReturnType<typeof createChance>

/** mulberry32: small, fast, and the same on every machine. */
export function createChance(seed: number) {
  let state = seed | 0
  const next = (): number => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
  return {
    /** In [0, 1). */
    next,
    /** In [min, max). */
    between: (min: number, max: number): number => min + next() * (max - min),
    /** True in so many of a thousand cases. */
    perMille: (rate: number): boolean => rate > 0 && next() * 1000 < rate,
    pick: <Member>(list: readonly Member[]): Member => {
      const member = list[Math.floor(next() * list.length)]
      if (member === undefined) throw new Error('nothing to pick from')
      return member
    },
  }
}

interface Moment {
  readonly atMs: number
  readonly order: number
  run(): void
}

export type VirtualTime = ReturnType<typeof createVirtualTime>

export function createVirtualTime(chance: Pick<Chance, 'next'>) {
  /** The next one last. */
  const moments: Moment[] = []
  const isBefore = (one: Moment, other: Moment): boolean =>
    one.atMs === other.atMs ? one.order < other.order : one.atMs < other.atMs

  const time = {
    /** True time in ms since the schedule began; nobody in the simulation reads it but through a clock of his own. */
    nowMs: 0,
    /** Something has run that may have settled promises. */
    isTouched: false,
    /** Runs the task then, or at once if that is past, but never within the caller's turn. */
    at: (atMs: number, run: () => void): void => {
      const moment = { atMs: Math.max(atMs, time.nowMs), order: chance.next(), run }
      let [from, to] = [0, moments.length]
      while (from < to) {
        const middle = (from + to) >> 1
        if (isBefore(moment, moments[middle] as Moment)) from = middle + 1
        else to = middle
      }
      moments.splice(from, 0, moment)
    },
    /** When the next moment is due; Infinity if none is. */
    nextAtMs: (): number => moments.at(-1)?.atMs ?? Infinity,
    /** Moves time to the next moment and runs it. */
    step: (): void => {
      const next = moments.pop()
      if (next === undefined) throw new Error('nothing is due')
      time.nowMs = next.atMs
      next.run()
    },
  }
  return time
}

/**
 * Lets every promise that can settle do so, however long the chain, within this turn of Node's event loop: what other tests have
 * left running in this process would take the timers of the simulation for Node's own, and change what it plays.
 */
const settled = (): Promise<void> =>
  new Promise((resolve) => queueMicrotask(() => process.nextTick(resolve)))

export interface Arrivals {
  nextAtMs(): number
  arrive(): void
}

/** Lets time pass until then, with requests arriving as `arrive` says: it is given the chance to add one, and tells when the next one comes. */
export async function passUntil(
  time: VirtualTime,
  endMs: number,
  world: { readonly load?: Arrivals | undefined; violation?(): Error | undefined } = {},
): Promise<void> {
  const { load } = world
  for (;;) {
    const momentMs = time.nextAtMs()
    const arrivalMs = load?.nextAtMs() ?? Infinity
    if (Math.min(momentMs, arrivalMs) > endMs) break
    const violation = world.violation?.()
    if (violation !== undefined) throw violation
    if (arrivalMs <= momentMs) {
      time.nowMs = Math.max(time.nowMs, arrivalMs)
      load?.arrive()
      continue
    }
    time.step()
    if (!time.isTouched) continue
    time.isTouched = false
    await settled()
  }
  time.nowMs = Math.max(time.nowMs, endMs)
}
