import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { refusalKinds } from '../../../src/core/rules/refusals.ts'
import { UniqueTimestamps } from '../../../src/core/record/access-record.ts'
import { renderSnapshots } from '../../../src/core/record/metric-registry.ts'
import { createMetrics, type Metrics } from '../../../src/core/record/metrics.ts'
import { finished, type Finished } from '../../support/finished.ts'

const names = { plans: ['free', 'pro'], routes: ['listPets', 'getPet'] }
const create = (): Metrics => createMetrics({ version: '1.2.3', ...names })

/** The samples of the page as a map from `name{labels}` to the value. */
async function samples(metrics: Metrics): Promise<Map<string, number>> {
  const body = await renderSnapshots([await metrics.snapshot()])
  return new Map(
    body
      .split('\n')
      .filter((line) => line !== '' && !line.startsWith('#'))
      .map((line) => {
        const cut = line.lastIndexOf(' ')
        return [line.slice(0, cut), Number(line.slice(cut + 1))]
      }),
  )
}

const done = (metrics: Metrics, more?: Partial<Finished>): void =>
  metrics.requests.done(...finished(more))

describe('metrics of requests', () => {
  it('counts what has no credential, no answer or an answer to an upgrade, too', async () => {
    const metrics = create()
    done(metrics, { status: 101, route: 'getPet' })
    done(metrics, { plan: undefined, status: 401 })
    done(metrics, { plan: '', status: 401 })
    done(metrics, { plan: undefined, status: 0 })
    const page = await samples(metrics)
    for (const [labels, count] of [
      ['route="getPet",plan="pro",method="GET",status="1xx"', 1],
      ['route="listPets",plan="none",method="GET",status="4xx"', 2],
      ['route="listPets",plan="none",method="GET",status="none"', 1],
    ] as const)
      expect(page.get(`tollgate_requests_total{${labels}}`), labels).toBe(count)
  })

  it('keeps the number of series bounded whatever clients send', async () => {
    const metrics = create()
    for (let index = 0; index < 500; index++) {
      done(metrics, {
        route: `/p/${index}`,
        plan: `plan-${index}`,
        method: `M${index}`,
        status: 200,
        refusal: 'overloaded',
      })
      done(metrics, { route: '__proto__', plan: 'constructor', method: 'hasOwnProperty' })
    }
    metrics.requests.shadowRefused('of-an-earlier-configuration', 'minute')
    const page = await samples(metrics)
    expect(page.get('tollgate_shadow_refusals_total{plan="other",window="minute"}')).toBe(1)
    const requests = [...page].filter(([name]) => name.startsWith('tollgate_requests_total'))
    // One of each code without a plan, both windows of each plan and of all others, and the one that was refused.
    expect([...page].filter(([name]) => name.startsWith('tollgate_refusals'))).toHaveLength(
      Object.keys(refusalKinds).length + 2 * 3 + 1,
    )
    const labels = 'route="unmatched",plan="other",method="other",status="2xx"'
    expect(requests).toEqual([[`tollgate_requests_total{${labels}}`, 1_000]])
  })

  it('puts a duration into the bucket that holds it and all larger ones', async () => {
    const metrics = create()
    done(metrics, { gatewayMs: 0.05, backendMs: 31_000 })
    done(metrics, { gatewayMs: 0.2, backendMs: undefined })
    const page = await samples(metrics)
    const own = (le: string) =>
      page.get(`tollgate_request_duration_seconds_bucket{route="listPets",le="${le}"}`)
    expect([own('0.00005'), own('0.0001'), own('0.00025'), own('+Inf')]).toEqual([1, 1, 2, 2])
    expect(page.get('tollgate_request_duration_seconds_count{route="listPets"}')).toBe(2)
    expect(page.get('tollgate_request_duration_seconds_sum{route="listPets"}')).toBeCloseTo(0.00025)
    const upstream = (le: string) =>
      page.get(`tollgate_backend_duration_seconds_bucket{route="listPets",le="${le}"}`)
    expect([upstream('30'), upstream('+Inf')]).toEqual([0, 1])
  })

  it('takes a negative or missing time as zero, so that a sum never turns into NaN', async () => {
    const metrics = create()
    done(metrics, { gatewayMs: Number.NaN, backendMs: -1 })
    const page = await samples(metrics)
    for (const name of ['request', 'backend'])
      expect(page.get(`tollgate_${name}_duration_seconds_sum{route="listPets"}`)).toBe(0)
  })
})

it('escapes names from the configuration', async () => {
  const metrics = createMetrics({ version: '1', plans: [], routes: ['a"b\\c\nd'] })
  done(metrics, { route: 'a"b\\c\nd', plan: undefined })
  const body = await renderSnapshots([await metrics.snapshot()])
  expect(body).toContain('route="a\\"b\\\\c\\nd",plan="none"')
})

it('gives moments of one millisecond an order, and begins anew with the next one', () => {
  const clock = [5, 5, 5, 6, 5]
  const now = vi.spyOn(Date, 'now').mockImplementation(() => clock.shift() ?? 7)
  onTestFinished(() => now.mockRestore())
  const timestamps = new UniqueTimestamps()
  expect([1, 2, 3, 4, 5].map(() => timestamps.next())).toEqual([5, 5.001, 5.002, 6, 5])
  const flood = Array.from({ length: 2_000 }, () => timestamps.next())
  expect(flood.every((atMs) => Math.floor(atMs) === 7)).toBe(true)
  expect(flood).toEqual([...flood].toSorted((one, other) => one - other))
})
