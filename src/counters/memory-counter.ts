/** A number per key of this process alone, counted at once. */
import type { Count, Counter } from './counter.ts'

interface Counted {
  readonly sinceMs: number
  readonly lifetimeMs: number
  total: number
}

export interface MemoryCounter extends Counter {
  add(key: string, points: number, nowMs: number): Count
  reset(key: string): void
}

/** lifetimeMs: see Counter.useLifetime. */
export function createMemoryCounter(lifetimeMs: number): MemoryCounter {
  let lastsMs = lifetimeMs
  /** In the order in which they began, so that those that are over come first. */
  const counts = new Map<string, Counted>()
  const begin = (key: string, nowMs: number): Counted => {
    for (const [oldest, counted] of counts) {
      if (runs(counted, nowMs)) break
      counts.delete(oldest)
    }
    const counted = { sinceMs: nowMs, lifetimeMs: lastsMs, total: 0 }
    // Anew, so that it stands behind those that began before.
    counts.delete(key)
    counts.set(key, counted)
    return counted
  }
  return {
    isShared: false,
    add: (key, points, nowMs) => {
      const known = counts.get(key)
      const counted = known !== undefined && runs(known, nowMs) ? known : begin(key, nowMs)
      counted.total += points
      return { total: counted.total, forMs: Math.max(0, nowMs - counted.sinceMs) }
    },
    reset: (key) => void counts.delete(key),
    useLifetime: (ms) => void (lastsMs = ms),
  }
}

/** Of a clock that was set back by more than a count lasts, nothing is known. */
const runs = ({ sinceMs, lifetimeMs }: Counted, nowMs: number): boolean =>
  Math.abs(nowMs - sinceMs) < lifetimeMs
