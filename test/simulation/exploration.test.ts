/**
 * Small worlds of the shipped lessee and the shipped authority, explored whole: every order in which requests, messages, timers
 * and faults can come, as far as it leads to a state of its own. Nothing is drawn by chance: each run finds the same numbers.
 *
 * TOLLGATE_EXPLORATION=long (npm run explore) explores larger ones for some minutes.
 */
import { afterAll, describe, expect, it } from 'vitest'
import { loaded } from './copies.ts'
import { explore } from './exploration.ts'
import { scaled, smallWorlds } from './small-worlds.ts'

const isLong = process.env['TOLLGATE_EXPLORATION'] === 'long'
const TIMEOUT_MS = isLong ? 3_600_000 : 180_000

const table = ['| world | states | steps | interleavings | ends | faults at most |']
afterAll(() => console.log(table.join('\n')))

describe('in every order of events', () => {
  const quota = loaded(scaled, { isOpen: true })

  it.each(smallWorlds)(
    'the quota holds when $title',
    async ({ longer, ...world }) => {
      const drawn = { ...world, ...(isLong ? longer : {}) }
      const { violation, schedule, ...found } = await explore(quota, drawn)
      const { states, steps, interleavings, ends } = found
      const count = interleavings.toPrecision(3)
      const most = drawn.faults?.most ?? 0
      table.push(`| ${drawn.title} | ${states} | ${steps} | ${count} | ${ends} | ${most} |`)
      expect(violation, schedule.join('\n')).toBeUndefined()
    },
    TIMEOUT_MS,
  )

  it('the same is found each time', async () => {
    const world = { title: '', limits: { perMinute: 1, perDay: 2 }, asks: 3, passes: [] }
    const [one, other] = [await explore(quota, world), await explore(quota, world)]
    expect(one).toEqual(other)
    expect(one.states).toBeGreaterThan(100)
  })
})
