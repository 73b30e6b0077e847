/**
 * Small worlds of the shipped lessee and the shipped authority, explored whole: every order in which requests, messages, timers
 * and faults can come, as far as it leads to a state of its own. Nothing is drawn by chance: each run finds the same numbers.
 *
 * TOLLGATE_EXPLORATION=<minutes> (npm run explore: 10) explores larger ones, for so long in all: what takes longer is left
 * unfinished, and that is said.
 */
import { afterAll, describe, expect, it } from 'vitest'
import { loaded } from './copies.ts'
import { explore } from './exploration.ts'
import { scaled, smallWorlds } from './small-worlds.ts'

const minutes = Number(process.env['TOLLGATE_EXPLORATION'] ?? 0)
const isLong = minutes > 0
const startedMs = performance.now()
const explored: string[] = []
afterAll(() => console.log(explored.join('\n')))

describe('in every order of events', () => {
  const quota = loaded(scaled, { isOpen: true })

  it.each(smallWorlds)(
    'the quota holds when $title',
    async ({ longer, ...world }) => {
      const drawn = { ...world, ...(isLong ? longer : {}) }
      // What is left of the time is shared by the worlds that are left.
      const nowMs = performance.now()
      const leftMs = startedMs + minutes * 60_000 - nowMs
      const endsMs = nowMs + leftMs / (smallWorlds.length - explored.length)
      const isOver = (): boolean => isLong && performance.now() > endsMs
      const { violation, schedule, ...found } = await explore(quota, drawn, isOver)
      const { states, steps, isComplete } = found
      const whole = isComplete ? 'whole' : 'in part'
      explored.push(`${drawn.title}: ${whole}, ${states} states, ${steps} steps`)
      expect(violation, schedule.join('\n')).toBeUndefined()
      expect(isComplete || isLong).toBe(true)
    },
    300_000 + minutes * 60_000,
  )
})
