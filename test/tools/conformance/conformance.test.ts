/** The suite against gateways that do one thing wrong, and one that does nothing wrong, in minutes that pass at once. */
import { describe, expect, it } from 'vitest'
import { runSuite } from '../../../src/tools/conformance/suite.ts'
import { createBadGateway, defects, LeapingTime, type Defect, type Manner } from './bad-gateway.ts'

const keys = Array.from({ length: 20 }, (_, at) => `tg_conformance_${at}_0123456789`)
const plan = { perMinute: 20, perDay: 1000 }
/** The day ends in the second minute. */
const smallDay = { perMinute: 20, perDay: 30 }
const planted = Object.entries(defects) as [Defect, string][]
/** Within a minute. */
const START_MS = Date.UTC(2026, 10, 3, 14, 7)
const groups = (...names: string[]): { only: string[] } => ({ only: names })

interface Case extends Manner {
  readonly defect?: Defect | undefined
  readonly limits?: typeof plan
  /** Names of groups; all. */
  readonly only?: readonly string[]
  readonly startMs?: number
}

async function judged({ limits = plan, only = [], startMs = 5_000, ...manner }: Case) {
  const time = new LeapingTime(START_MS + startMs)
  const { connect, mostRefusals } = createBadGateway({ keys, limits, time, ...manner })
  const url = new URL('http://gateway.example')
  const order = { url, path: '/v1/pets', limits, keys, only }
  const { checks, seconds } = await runSuite(order, { now: time.now, after: time.after, connect })
  expect(seconds).toBeLessThan(240)
  expect(mostRefusals()).toBeLessThanOrEqual(10)
  return {
    checks,
    named: checks.filter(({ verdict }) => verdict === 'broken').map(({ name }) => name),
    check: (name: string) => checks.find((check) => check.name === name),
  }
}

describe('the suite is over in less than four minutes, no key is refused more than ten times, and it', () => {
  it.each([0, 5_000, 38_000, 59_900])(
    'finds nothing at a gateway that does everything right, from %i ms of a minute on',
    async (startMs) => {
      const { checks } = await judged({ startMs })
      expect(checks.filter(({ verdict }) => verdict !== 'holds')).toEqual([])
      expect(checks.length).toBeGreaterThan(25)
    },
  )

  it.each(planted)('names a gateway that %s, with %s alone', async (defect, check) => {
    const { named, checks } = await judged({ defect })
    expect(named, JSON.stringify(checks)).toEqual([check])
  })

  it('blames no rule at a gateway that is too slow for a minute to be used up', async () => {
    const asked = groups('admission', 'windows', 'refused', 'headers')
    const { named, check } = await judged({ ...asked, latencyMs: 3_000 })
    expect(named).toEqual([])
    for (const name of ['exact', 'methods', 'reset', 'remaining'])
      expect(check(name)?.verdict).toBe('cannot tell')
  })

  it.each([0, 5_000, 38_000])(
    'names a bucket that leaks as what it is, and no minute that nothing tells of: from %i ms on',
    async (startMs) => {
      const silent = { ...groups('admission'), startMs, isSilent: true }
      const leaky = await judged({ ...silent, leaks: true })
      expect(leaky.named).toEqual(['exact'])
      const { seen, numbers } = leaky.check('exact') ?? {}
      expect(seen).toMatch(/^\d+ of 20 admitted: a leaky bucket, which has room again/)
      expect(numbers?.['over']).toBeGreaterThan(10)
      expect((await judged(silent)).named).toEqual([])
    },
  )

  it('does not blame a minute that slides on refusals', async () => {
    const { check } = await judged({ ...groups('refused'), slides: true })
    expect(check('refused-free')?.seen).toBe('its window slides')
  })

  it.each<[Defect | undefined, string[], object]>([
    [undefined, [], { verdict: 'holds', seen: '30 of 30 admitted in two minutes' }],
    ['charges what it refuses', ['refused-free'], {}],
    ['does not charge the day', ['day'], {}],
  ])('exhausts a day that is small enough: where it %s, %j', async (defect, faults, day) => {
    const asked = groups('day', 'refused')
    const { named, check } = await judged({ ...asked, defect, limits: smallDay })
    expect(named).toEqual(faults)
    expect(check('day')).toMatchObject(day)
  })

  it.each<[string, Manner, string, string]>([
    ['is true', {}, 'holds', 'holds'],
    ['is a second late, as one that is rounded up', { lateMs: 1_000 }, 'holds', 'holds'],
    ['is two seconds late', { lateMs: 2_000 }, 'broken', 'holds'],
    ['is a second late in seconds to go', { lateMs: 1_000, tellsSeconds: true }, 'holds', 'holds'],
    [
      'is two seconds late in seconds to go',
      { lateMs: 2_000, tellsSeconds: true },
      'broken',
      'broken',
    ],
    ['is five seconds late', { lateMs: 5_000 }, 'broken', 'broken'],
    ['is of a clock before that of Date', { aheadMs: -5_000 }, 'cannot tell', 'cannot tell'],
  ])('holds a Reset that %s against Date and what is admitted', async (_, manner, ends, agrees) => {
    // Answered at the end of a second, from which the suite knows the gateway's clock best.
    const startMs = 5_990
    const { check } = await judged({ ...groups('windows', 'headers'), startMs, ...manner })
    const found = [check('reset'), check('agree')]
    expect(
      found.map((each) => each?.verdict),
      JSON.stringify(found),
    ).toEqual([ends, agrees])
    const clocks = 'Date and Reset are of different clocks'
    if (ends === 'cannot tell') expect(found.map((each) => each?.seen)).toEqual([clocks, clocks])
  })
})
