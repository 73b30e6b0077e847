/** The strike rule on a virtual clock, with schedules that the libraries themselves have given. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import pRetry from 'p-retry'
import { expect, vi } from 'vitest'
import { createMemoryCounter } from '../../../src/state/memory/counter.ts'
import { isBanEarned } from '../../../src/core/rules/ban-policy.ts'
import { ensurePackage } from '../../support/debian-package.ts'

const minute = 60_000
const policy = { strikes: 90, withinMs: minute, graceMs: 1000 }

/** Waits in ms, one list per run of the library. */
export type Schedules = readonly (readonly number[])[]

async function recordPRetry(options: { retries: number; randomize?: boolean }): Promise<number[]> {
  vi.useFakeTimers()
  const waits: number[] = []
  const onFailedAttempt = ({ retryDelay }: { retryDelay: number }) => void waits.push(retryDelay)
  const fail = () => Promise.reject(new Error('429'))
  const run = pRetry(fail, { ...options, onFailedAttempt }).catch(() => undefined)
  await vi.runAllTimersAsync().finally(() => vi.useRealTimers())
  await run
  return waits.slice(0, -1)
}

const recordTenacity = `
import json, sys, tenacity
def record(wait):
    waits = []
    def fail(): raise Exception()
    run = tenacity.Retrying(wait=wait, stop=tenacity.stop_after_attempt(11), sleep=lambda s: waits.append(1000 * s))
    try: run(fail)
    except tenacity.RetryError: pass
    return waits
kinds = {
  'wait_exponential': tenacity.wait_exponential(),
  'wait_exponential_jitter': tenacity.wait_exponential_jitter(),
  'wait_random_exponential': tenacity.wait_random_exponential(),
}
print(json.dumps({name: [record(wait) for _ in range(200)] for name, wait in kinds.items()}))
`

/**
 * Two hours of client loops that send again at once after an answer, and after a refusal wait as their library says. The
 * result is when the key was banned, if it was. perMinute: 0 as the day is used up, and everything is refused.
 */
export function play(
  schedules: Schedules,
  { perMinute = 0, phaseMs = 0, spacingMs = 0, latencyMs = 0 },
): number | undefined {
  const loops = Array.from({ length: 8 }, (_, at) => ({
    atMs: phaseMs + at * spacingMs,
    waits: undefined as Iterator<number> | undefined,
  }))
  let runs = 0
  let window = { index: 0, used: 0, firstRefusedAtMs: 0, isRefused: false }
  const counter = createMemoryCounter(policy.withinMs)
  for (;;) {
    const loop = loops.reduce((one, other) => (other.atMs < one.atMs ? other : one))
    const nowMs = loop.atMs
    if (nowMs > 120 * minute) return undefined
    const index = perMinute === 0 ? 0 : Math.floor(nowMs / minute)
    if (index !== window.index) window = { index, used: 0, firstRefusedAtMs: 0, isRefused: false }
    if (window.used < perMinute) {
      window.used++
      loop.waits = undefined
      loop.atMs += latencyMs
      continue
    }
    const { firstRefusedAtMs, isRefused } = window
    if (!isRefused) window = { ...window, firstRefusedAtMs: nowMs, isRefused: true }
    else if (nowMs - firstRefusedAtMs > policy.graceMs) {
      if (isBanEarned(counter.add('key', 1, nowMs).total, policy)) return nowMs
    }
    loop.waits ??= schedules[runs++ % schedules.length]?.values()
    const wait = loop.waits?.next()
    // A library that has given up: the next job begins at once.
    if (wait === undefined || wait.done === true) loop.waits = undefined
    else loop.atMs += wait.value
    loop.atMs += latencyMs
  }
}

/** By name of the library's way to wait. */
export async function recordSchedules(): Promise<ReadonlyMap<string, Schedules>> {
  const recorded = new Map<string, Schedules>()
  recorded.set('p-retry', [await recordPRetry({ retries: 10 })])
  recorded.set('p-retry that gives up after a minute', [await recordPRetry({ retries: 6 })])
  const randomized = []
  for (let run = 0; run < 50; run++)
    randomized.push(await recordPRetry({ retries: 10, randomize: true }))
  recorded.set('p-retry with randomize', randomized)
  // Debian's own Python, which sees Debian's packages; another on PATH may not.
  const python = '/usr/bin/python3'
  ensurePackage('python3-tenacity', { probe: [python, '-c', 'import tenacity'] })
  const { stdout } = await promisify(execFile)(python, ['-c', recordTenacity])
  const tenacity = JSON.parse(stdout) as Record<string, Schedules>
  for (const [name, schedules] of Object.entries(tenacity)) recorded.set(name, schedules)
  return recorded
}

/** Through turns of the minute and days used up. */
export function expectNeverBanned(
  schedules: Schedules,
  wide: { perMinute: number[]; spacingMs: number[]; phaseMs: number; latencyMs: number[] },
): void {
  expect(schedules.length).toBeGreaterThan(0)
  for (const perMinute of wide.perMinute)
    for (const spacingMs of wide.spacingMs)
      for (let phaseMs = 0; phaseMs < minute; phaseMs += wide.phaseMs)
        for (const latencyMs of wide.latencyMs)
          expect(
            play(schedules, { perMinute, latencyMs, phaseMs, spacingMs }),
            `${perMinute} a minute, ${spacingMs} ms apart, from ${phaseMs} ms`,
          ).toBeUndefined()
}
