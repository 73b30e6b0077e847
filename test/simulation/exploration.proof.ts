/**
 * Small worlds of the shipped lessee and the shipped authority, explored whole: every order in which requests, messages, timers
 * and faults can come, as far as it leads to a state of its own. Nothing is drawn by chance: each run finds the same numbers.
 *
 * TOLLGATE_EXPLORATION=<minutes> (npm run explore: 10) explores larger ones, for so long in all: what takes longer is left unfinished,
 * and the table says so.
 */
import { afterAll, describe, expect, it } from 'vitest'
import { loaded } from './copies.ts'
import { explore } from './exploration.ts'
import { scaled, smallWorlds } from './small-worlds.ts'

const minutes = Number(process.env['TOLLGATE_EXPLORATION'] ?? 0)
const isLong = minutes > 0
const TIMEOUT_MS = 300_000 + minutes * 60_000

const table = [
  '| world | states | steps | interleavings | ends | faults at most | explored whole |',
]
const sum = { worlds: 0, whole: 0, states: 0, steps: 0, interleavings: 0, faults: 0 }
const startedMs = performance.now()
afterAll(() => {
  const { worlds, whole, states, steps, interleavings, faults } = sum
  const seconds = ((performance.now() - startedMs) / 1000).toFixed(0)
  console.log(table.join('\n'))
  console.log(
    `${worlds} worlds, ${whole} of them whole, in ${seconds} s: ${states} states, ${steps} steps, ${interleavings.toPrecision(3)} schedules, up to ${faults} faults in each`,
  )
})

describe('in every order of events', () => {
  const quota = loaded(scaled, { isOpen: true })

  it.each(smallWorlds)(
    'the quota holds when $title',
    async ({ longer, ...world }) => {
      const drawn = { ...world, ...(isLong ? longer : {}) }
      // What is left of the time is shared by the worlds that are left.
      const nowMs = performance.now()
      const leftMs = startedMs + minutes * 60_000 - nowMs
      const endsMs = nowMs + leftMs / (smallWorlds.length - sum.worlds)
      const isOver = (): boolean => isLong && performance.now() > endsMs
      const { violation, schedule, ...found } = await explore(quota, drawn, { isOver })
      const { states, steps, interleavings, ends, isComplete } = found
      const most = drawn.faults?.most ?? 0
      const count = isComplete ? interleavings.toPrecision(3) : '-'
      const whole = isComplete ? 'yes' : 'no'
      table.push(
        `| ${drawn.title} | ${states} | ${steps} | ${count} | ${ends} | ${most} | ${whole} |`,
      )
      sum.worlds += 1
      sum.whole += isComplete ? 1 : 0
      sum.states += states
      sum.steps += steps
      sum.interleavings += interleavings
      sum.faults = Math.max(sum.faults, most)
      expect(violation, schedule.join('\n')).toBeUndefined()
      expect(isComplete || isLong).toBe(true)
    },
    TIMEOUT_MS,
  )
})
