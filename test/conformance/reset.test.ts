/** What is said of a told end, in a time that is made up: nobody waits for a minute. */
import { expect, it } from 'vitest'
import type { Caller } from '../../src/conformance/caller.ts'
import type { Stage } from '../../src/conformance/check.ts'
import { headers } from '../../src/conformance/headers.ts'
import { toldOf } from '../../src/conformance/standing.ts'
import { windows } from '../../src/conformance/windows.ts'

const START_MS = Date.UTC(2026, 10, 3, 14, 7, 5)
const END_MS = Date.UTC(2026, 10, 3, 14, 8)
const limits = { perMinute: 20, perDay: 1_000 }

interface Behaviour {
  /** Its minutes end so much before the told end. */
  readonly lateMs?: number
  readonly dateMs?: number
  readonly isDelta?: boolean
}

/** One key that is used up, at a gateway with a clock for its minutes, and one for its Date. */
function stageOf({ lateMs = 0, dateMs = 0, isDelta = false }: Behaviour) {
  let nowMs = START_MS
  const journal: unknown[] = []
  const told = (answer: { readonly headers: readonly string[] }, window: 'minute' | 'day') =>
    toldOf(answer, window ?? 'minute', limits)
  const ask = () => {
    nowMs += 5
    const isRefused = nowMs < END_MS
    const endMs = isRefused ? END_MS : END_MS + 60_000
    const left = isRefused ? 0 : 19
    const seconds = Math.ceil((endMs - nowMs) / 1_000)
    const late = lateMs / 1_000
    const headers = Object.entries({
      Date: new Date(nowMs + dateMs).toUTCString(),
      'X-RateLimit-Limit': '20',
      'X-RateLimit-Remaining': String(left),
      'X-RateLimit-Reset': String((isDelta ? seconds : endMs / 1_000) + late),
      'RateLimit-Policy': '"minute";q=20;w=60',
      RateLimit: `"minute";r=${left};t=${seconds}`,
    }).flat()
    const sentMs = nowMs - 5
    journal.push({ headers, status: isRefused ? 429 : 200, isRefused, sentMs, receivedMs: nowMs })
    return Promise.resolve(journal.at(-1))
  }
  const clock = {
    latest: (atMs = nowMs) => atMs + dateMs,
    earliest: (atMs = nowMs) => atMs + dateMs,
    before: (ms: number) => Promise.resolve(void (nowMs = Math.max(nowMs, ms - dateMs))),
    passed: (ms: number) => Promise.resolve(void (nowMs = Math.max(nowMs, ms - dateMs))),
  }
  const caller = {
    ask,
    journal,
    told,
    freshWindow: ask,
    exhaust: ask,
    stillCounts: () => undefined,
    resetMs: END_MS + lateMs,
  }
  const stage = { limits, clock, journals: [caller] } as unknown as Stage
  return { stage, callers: [caller] as unknown as Caller[] }
}

it.each<[string, Behaviour, string, string]>([
  ['is true', {}, 'holds', 'holds'],
  ['is a second late, as one that is rounded up', { lateMs: 1_000 }, 'holds', 'holds'],
  ['is two seconds late', { lateMs: 2_000 }, 'broken', 'holds'],
  ['is two seconds late in seconds to go', { lateMs: 2_000, isDelta: true }, 'holds', 'broken'],
  ['is five seconds late', { lateMs: 5_000 }, 'broken', 'broken'],
  ['is of a clock before that of Date', { dateMs: -5_000 }, 'cannot tell', 'cannot tell'],
])('a Reset that %s', async (_what, behaviour, verdict, agrees) => {
  const { stage, callers } = stageOf(behaviour)
  const found = await windows['reset']?.run(stage, callers)
  expect(found?.verdict, found?.seen).toBe(verdict)
  const agreeing = await headers['agree']?.run(stage, [])
  expect(agreeing?.verdict, agreeing?.seen).toBe(agrees)
  const clocks = 'Date and Reset are of different clocks'
  if (verdict === 'cannot tell') expect([found?.seen, agreeing?.seen]).toEqual([clocks, clocks])
})
