/** The strike rule on a virtual clock, with schedules that the libraries themselves have given. */
import pRetry from 'p-retry'
import { afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { createMemoryCounter } from '../../src/counters/memory-counter.ts'
import { isBanEarned, isStrike } from '../../src/rules/ban-policy.ts'
import { runTenacity } from '../support/tenacity.ts'

const minute = 60_000
const policy = { strikes: 90, withinMs: minute, graceMs: 1000 }

/** Waits in ms, one list per run of the library. */
type Schedules = readonly (readonly number[])[]

afterEach(() => void vi.useRealTimers())

async function recordPRetry(options: { retries: number; randomize?: boolean }): Promise<number[]> {
  vi.useFakeTimers()
  const waits: number[] = []
  const onFailedAttempt = ({ retryDelay }: { retryDelay: number }) => void waits.push(retryDelay)
  const fail = () => Promise.reject(new Error('429'))
  const run = pRetry(fail, { ...options, onFailedAttempt }).catch(() => undefined)
  await vi.runAllTimersAsync()
  await run
  vi.useRealTimers()
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

/** Client loops that send again at once after an answer, and after a refusal wait as their library says. Times in ms. */
interface Play {
  readonly schedules: Schedules
  /** 0: the day is used up, and everything is refused. */
  readonly perMinute: number
  /** Of loops 0 to 7. */
  startMs(loop: number): number
  readonly latencyMs: number
}

/** Plays two hours; the result is when the key was banned, if it was. */
function play({ schedules, perMinute, startMs, latencyMs }: Play): number | undefined {
  const loops = Array.from({ length: 8 }, (_, at) => ({
    atMs: startMs(at),
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
    else if (isStrike({ nowMs, firstRefusedAtMs, graceMs: policy.graceMs })) {
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

describe('eight loops that back off from one second', () => {
  const recorded = new Map<string, Schedules>()
  beforeAll(async () => {
    recorded.set('p-retry', [await recordPRetry({ retries: 10 })])
    recorded.set('p-retry that gives up after a minute', [await recordPRetry({ retries: 6 })])
    const randomized = []
    for (let run = 0; run < 50; run++)
      randomized.push(await recordPRetry({ retries: 10, randomize: true }))
    recorded.set('p-retry with randomize', randomized)
    const tenacity = JSON.parse(await runTenacity(recordTenacity)) as Record<string, Schedules>
    for (const [name, schedules] of Object.entries(tenacity)) recorded.set(name, schedules)
  })

  it('wait as is said of them', () => {
    expect(recorded.get('p-retry')?.[0]?.slice(0, 6)).toEqual([
      1000, 2000, 4000, 8000, 16000, 32000,
    ])
    expect(recorded.get('wait_exponential')?.[0]?.slice(0, 5)).toEqual([
      1000, 2000, 4000, 8000, 16000,
    ])
  })

  it.each([
    'p-retry',
    'p-retry that gives up after a minute',
    'p-retry with randomize',
    'wait_exponential',
    'wait_exponential_jitter',
    'wait_random_exponential',
  ])('as %s does are never banned, through turns of the minute and days used up', (name) => {
    const schedules = recorded.get(name) ?? []
    expect(schedules.length).toBeGreaterThan(0)
    for (const perMinute of [0, 1, 5, 20, 60, 300])
      for (const spacingMs of [0, 250, 1_300, 7_700])
        for (let phaseMs = 0; phaseMs < minute; phaseMs += 2_900)
          for (const latencyMs of [4, 60])
            expect(
              play({ schedules, perMinute, latencyMs, startMs: (at) => phaseMs + at * spacingMs }),
              `${perMinute} a minute, ${spacingMs} ms apart, from ${phaseMs} ms`,
            ).toBeUndefined()
  })
})

describe('a steady pace of two requests a second', () => {
  it.each([0, 1, 5])('is banned within a minute, of which %d are admitted', (perMinute) => {
    // One request of each of eight loops in four seconds.
    const schedules = [Array.from({ length: 5_000 }, () => 4_000)]
    for (let phaseMs = 0; phaseMs < minute; phaseMs += 500) {
      const startMs = (loop: number) => phaseMs + loop * 500
      const bannedMs = play({ schedules, perMinute, latencyMs: 0, startMs })
      expect((bannedMs ?? Infinity) - phaseMs).toBeLessThan(minute)
    }
  })
})
