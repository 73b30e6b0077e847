/** One client whose requests name different limits at the same moment, as tokens of different plans do. */
import { beforeEach, describe, expect, it } from 'vitest'
import { controlledMemoryAuthority } from '../support/controlled-authority.ts'
import {
  all,
  createNetwork,
  createTestLessee,
  createTimeline,
  type Timeline,
} from './lessee-harness.ts'

const small = { perMinute: 5, perDay: 100 }
const large = { perMinute: 20, perDay: 100 }

describe('requests of one client under different limits', () => {
  let timeline: Timeline
  let network: ReturnType<typeof createNetwork>

  beforeEach(() => {
    timeline = createTimeline()
    network = createNetwork(controlledMemoryAuthority(timeline.time), timeline)
  })

  it('are each decided by their own, in a bounded number of calls', async () => {
    const lessee = createTestLessee(network, timeline)
    for (let n = 0; n < 5; n++) await lessee.take('acme', small)
    network.delayMs = 2
    const plans = Array.from({ length: 30 }, (_, n) => (n % 2 === 0 ? small : large))
    const decisions = all(plans.map((limits) => lessee.take('acme', limits)))
    await timeline.pass(100)
    const kinds = (await decisions).map(({ kind }) => kind)
    expect(kinds.filter((_, n) => n % 2 === 0)).toEqual(Array.from({ length: 15 }, () => 'refused'))
    expect(kinds.filter((_, n) => n % 2 === 1)).toEqual(
      Array.from({ length: 15 }, () => 'admitted'),
    )
    expect(network.calls.length).toBeLessThan(12)
  })

  it('go with one call however many wait', async () => {
    const lessee = createTestLessee(network, timeline)
    network.delayMs = 90
    const many = { perMinute: 10_000, perDay: 10_000 }
    const decisions = all(Array.from({ length: 5000 }, () => lessee.take('acme', many)))
    await timeline.pass(185)
    expect((await decisions).every(({ kind }) => kind === 'admitted')).toBe(true)
    expect(network.calls.map(({ need }) => need)).toEqual([1, 4999])
  })
})
