/** What counts between the edges of the measurement: latencies of answers, and the CPU time that processes used. */
import { cpuMicroseconds } from './cpu.ts'
import type { LoadOutcome } from './load.ts'

export interface MeasuredWindow {
  /** Outside the window it counts nothing. */
  answer(latencyMs: number): void
  open(): void
  close(): void
  figures(): Omit<LoadOutcome, 'faults'>
}

export function measuredWindow(pids: readonly number[]): MeasuredWindow {
  const latenciesMs: number[] = []
  let measuring = false
  let openedMs = 0
  let closedMs = 0
  let before: number[] = []
  let after: number[] = []
  return {
    answer: (latencyMs) => {
      if (measuring) latenciesMs.push(latencyMs)
    },
    open: () => {
      measuring = true
      before = pids.map(cpuMicroseconds)
      openedMs = performance.now()
    },
    close: () => {
      closedMs = performance.now()
      after = pids.map(cpuMicroseconds)
      measuring = false
    },
    figures: () => {
      const sorted = Float64Array.from(latenciesMs).sort()
      const quantile = (q: number): number => sorted[Math.floor((sorted.length - 1) * q)] ?? NaN
      return {
        requests: sorted.length,
        seconds: (closedMs - openedMs) / 1000,
        p50Ms: quantile(0.5),
        p99Ms: quantile(0.99),
        cpuMicroseconds: after.map((total, index) => total - (before[index] ?? NaN)),
      }
    },
  }
}
