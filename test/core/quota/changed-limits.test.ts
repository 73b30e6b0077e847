/** Limits that change while the authority is away: the new ones act on the next request, also on what is in hand. */
import { expect, it } from 'vitest'
import type { Limits, OutageMode } from '../../../src/config/config.ts'
import { controlledMemoryAuthority } from '../../support/controlled-authority.ts'
import { atOnce, createNetwork, createTestLessee, createTimeline } from './lessee-harness.ts'

const of = (perMinute: number, perDay = 100_000): Limits => ({ perMinute, perDay })

it.each<{ mode: OutageMode; before: Limits; others: number; after: Limits; sum: number }>([
  { mode: 'local', before: of(60), others: 0, after: of(5), sum: 4 },
  { mode: 'local', before: of(60), others: 12, after: of(20), sum: 7 },
  { mode: 'local', before: of(60), others: 12, after: of(5), sum: 0 },
  { mode: 'local', before: of(60, 999), others: 12, after: of(20, 14), sum: 1 },
  { mode: 'local', before: of(5), others: 5, after: of(21), sum: 16 },
  { mode: 'closed', before: of(60), others: 0, after: of(5), sum: 0 },
  { mode: 'open', before: of(60), others: 0, after: of(5), sum: 80 },
])(
  '$mode: from $before.perMinute to $after.perMinute with $others used by others, $sum in all',
  async ({ mode, before, others, after, sum }) => {
    const timeline = createTimeline()
    const authority = controlledMemoryAuthority(timeline.time)
    const networks = [1, 2, 3].map(() => createNetwork(authority, timeline))
    const [leaver, ...lessees] = networks.map((network, at) =>
      createTestLessee(network, timeline, { processId: `p${at}`, outage: mode }),
    )
    await timeline.pass(2500)
    for (let n = 0; n < others; n++) await leaver?.take('acme', before)
    await leaver?.drain()
    await timeline.pass(8000)
    // What each hands back looks taken to the others until the authority hears of it with the next call.
    for (const lessee of [...lessees, ...lessees, ...lessees]) {
      const decision = await lessee.take('acme', before)
      if (decision.kind === 'admitted') lessee.refund('acme', decision)
      await timeline.pass(1)
    }
    for (const network of networks) network.state = 'away'
    let admitted = 0
    for (const lessee of lessees)
      for (let n = 0; n < 40; n++)
        admitted += atOnce(lessee.take('acme', after)).kind === 'admitted' ? 1 : 0
    expect(admitted).toBe(sum)
  },
)
