/** What does not divide, of a limit that processes share; that shares sum to the limit shows test/simulation (store lost). */
import { expect, it } from 'vitest'
import { Membership } from '../../../src/core/quota/membership.ts'
import { createEmbeddedAuthority } from '../../../src/state/memory/authority.ts'
import { createTimeline } from './lessee-harness.ts'

it('goes to the first processes', async () => {
  const { time, timers, pass } = createTimeline()
  const authority = createEmbeddedAuthority({ clock: { epochMs: () => time.ms } })
  const members = ['a', 'b', 'c', 'd'].map(
    (processId) => new Membership({ authority, timers, processId, processes: 1, number: 1 }),
  )
  // By then all know of each other.
  await pass(8_000)
  expect(members.map((one) => one.shareOf(10))).toEqual([3, 3, 2, 2])
})
