/** What the latest seconds were, summed over processes, with time as an argument. */
import { describe, expect, it } from 'vitest'
import { DeprecatedCallers } from '../../../src/insight/live/deprecated-callers.ts'
import { createSecondSampler, packSecond, unpackSecond } from '../../../src/insight/live/second.ts'
import { quantileMs, Seconds } from '../../../src/insight/live/seconds.ts'
import { createMetrics } from '../../../src/core/record/metrics.ts'
import { finished } from '../../support/finished.ts'
import { row, second } from './rows.ts'

const record = { route: 'a', backendMs: 20 }

describe('one process', () => {
  const names = { routes: ['a', 'b'], plans: ['pro'] }
  const metrics = createMetrics({ ...names, version: '1' })
  const tally = { take: () => [row('c')] }
  const take = createSecondSampler(metrics, tally, { take: () => [] }, new DeprecatedCallers())

  it('tells what was added since the second before, and what is in flight', () => {
    const inFlight = ['one', 'another']
    metrics.watchConnections({ size: 1, inFlight })
    metrics.requests.done(...finished(record))
    metrics.requests.done(...finished({ route: 'b', backendMs: undefined }))
    const first = take(7)
    expect(first).toMatchObject({ at: 7, requests: 2, inFlight: 2, rows: [{ client: 'c' }] })
    expect(first.gateway.reduce((sum, count) => sum + count)).toBe(2)
    expect(first.backend.reduce((sum, count) => sum + count)).toBe(1)
    metrics.requests.done(...finished(record))
    inFlight.pop()
    expect(take(8)).toMatchObject({ requests: 1, inFlight: 1 })
    expect(take(9)).toMatchObject({ requests: 0, inFlight: 1 })
  })

  it('tells refusals by what refused them', () => {
    const refused = (
      refusal: 'rate_limit_exceeded' | 'api_key_banned' | 'not_found',
      refusedWindow?: 'minute' | 'day',
    ) => metrics.requests.done(...finished({ ...record, refusal, refusedWindow }))
    refused('rate_limit_exceeded', 'minute')
    refused('rate_limit_exceeded', 'day')
    expect(take(10).refused).toEqual({ minute: 1, day: 1, ban: 0, other: 0 })
    refused('rate_limit_exceeded')
    refused('api_key_banned')
    refused('not_found')
    expect(take(11).refused).toEqual({ minute: 0, day: 0, ban: 1, other: 2 })
  })

  it('tells no less than nothing where routes have gone', () => {
    metrics.requests.use({ ...names, routes: ['b'] })
    metrics.requests.done(...finished({ route: 'b' }))
    expect(take(12)).toMatchObject({ requests: 1 })
  })
})

describe('on its way to another process', () => {
  it('a second stays what it is', () => {
    const rows = [
      row('c', { minuteUsed: NaN, minuteLimit: NaN, totalMsSum: 1.25, shadowDay: 3 }),
      row('d', { dayUsed: 0, dayLimit: 9 }),
    ]
    const told = second(5, { rows, requests: 2 })
    expect(unpackSecond(structuredClone(packSecond(told)))).toEqual(told)
    expect(unpackSecond(packSecond(second(5)))).toEqual(second(5))
  })
})

describe('all processes', () => {
  it('are summed, and no row is lost', () => {
    const seconds = new Seconds()
    seconds.add(second(100, { requests: 3, inFlight: 1, rows: [row('a')] }))
    seconds.add(second(100, { requests: 4, inFlight: 2, rows: [row('a'), row('b')] }))
    const [closed] = seconds.close(100)
    expect(closed).toMatchObject({ at: 100, requests: 7, inFlight: 3 })
    expect(closed?.rows.map(({ client }) => client)).toEqual(['a', 'a', 'b'])
    expect(seconds.latest).toMatchObject({ at: '1970-01-01T00:01:40.000Z', requests: 7 })
    expect(seconds.close(101)).toEqual([])
  })

  it('leave a gap where nobody told anything, which is not 0', () => {
    const seconds = new Seconds()
    for (const at of [100, 101, 104]) seconds.add(second(at, { requests: at - 100 }))
    seconds.close(105)
    const { from, requests, refused } = seconds.columns(106)
    expect(from).toBe('1970-01-01T00:01:40.000Z')
    expect(requests).toEqual([0, 1, null, null, 4, null])
    expect(refused.ban).toEqual([0, 0, null, null, 0, null])
  })

  it('are counted in the next second if they come late, and never twice', () => {
    const seconds = new Seconds()
    seconds.add(second(100, { requests: 1 }))
    seconds.close(100)
    seconds.add(second(100, { requests: 5 }))
    seconds.add(second(101, { requests: 1 }))
    seconds.add(second(102, { requests: 1 }))
    expect(seconds.close(101).map(({ at, requests }) => [at, requests])).toEqual([[101, 6]])
    expect(seconds.close(102)).toHaveLength(1)
  })

  it('keep 900 seconds', () => {
    const seconds = new Seconds()
    for (let at = 1; at <= 2_000; at++) {
      seconds.add(second(at, { requests: at }))
      seconds.close(at)
    }
    const { requests } = seconds.columns(2_001)
    expect([requests.length, requests[0], requests.at(-1)]).toEqual([900, 1_101, 2_000])
  })

  it('go on after the clock was put back', () => {
    const seconds = new Seconds()
    seconds.add(second(5_000, { requests: 1 }))
    seconds.close(5_000)
    seconds.add(second(1_000, { requests: 2 }))
    expect(seconds.close(1_000)).toMatchObject([{ at: 1_000, requests: 2 }])
    expect(seconds.columns(1_001).requests).toEqual([2])
  })
})

describe('latencies', () => {
  it.each<[string, number[], number, number | null]>([
    ['nothing', [0, 0, 0], 0.5, null],
    ['all in one bucket', [0, 10, 0], 0.5, 55],
    ['the first bucket', [4, 0, 0], 0.5, 5],
    ['the slowest', [98, 2, 0], 0.99, 55],
    ['beyond the last bound, which is told', [0, 0, 3], 0.99, 100],
    ['two digits', [3, 0, 0], 0.5, 5],
  ])('of %s', (_, counts, share, ms) => {
    expect(quantileMs([counts], [0.01, 0.1], share)).toBe(ms)
  })

  it('are those of the ten seconds before, of all processes', () => {
    const seconds = new Seconds()
    const slow = [...Array.from({ length: 12 }, () => 0), 1]
    seconds.add(second(100, { gateway: slow }))
    seconds.close(100)
    expect(seconds.latest?.gatewayMs).toEqual({ p50: 250, p99: 250 })
    for (let at = 101; at < 110; at++) seconds.add(second(at, { gateway: [100] }))
    seconds.close(109)
    expect(seconds.latest?.gatewayMs.p99).toBe(0.05)
    expect(seconds.latest?.backendMs).toEqual({ p50: null, p99: null })
    seconds.add(second(110))
    seconds.close(110)
    expect(seconds.columns(111).gatewayMs.p50).toHaveLength(11)
  })
})
