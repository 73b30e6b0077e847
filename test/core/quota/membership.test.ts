/** What does not divide, of a limit that processes share; that shares sum to the limit shows test/simulation (store lost). */
import { expect, it } from 'vitest'
import { Membership } from '../../../src/core/quota/membership.ts'
import { createMemoryAuthority } from '../../../src/state/memory/authority.ts'
import { createTimeline } from './lessee-harness.ts'

it('goes to each process in its turn', async () => {
  const { time, timers, pass } = createTimeline()
  const authority = createMemoryAuthority({ clock: { epochMs: () => time.ms } })
  const members = ['a', 'b', 'c', 'd', 'e', 'f'].map(
    (processId) => new Membership({ authority, timers, processId, processes: 1, number: 1 }),
  )
  // By then all know of each other.
  await pass(8_000)
  const clients = Array.from({ length: 600 }, (_, at) => `client-${at}`)
  const wins = members.map((one) => clients.filter((client) => one.shareOf(client)(1) === 1).length)
  expect(wins.reduce((sum, count) => sum + count)).toBe(600)
  for (const count of wins) expect(count).toBeGreaterThan(50)
})
