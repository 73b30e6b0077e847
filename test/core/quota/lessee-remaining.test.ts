/** What two processes say of one client, and how soon each hears of what the other took or handed back. */
import { beforeEach, expect, it } from 'vitest'
import type { Lessee } from '../../../src/core/quota/lessee.ts'
import type { QuotaDecision } from '../../../src/core/quota/decision.ts'
import type { Notice } from '../../../src/state/quota.ts'
import { admitted, all, atOnce, behindNetwork, createTestLessee } from './lessee-harness.ts'

const limits = { perMinute: 600, perDay: 100_000 }
const SIXTEENTH = 37
/** All calls are answered and all notices have come. */
const SETTLED_MS = 300

let { timeline, network } = behindNetwork()
let one: Lessee
let other: Lessee
const notices: Notice[] = []
/** Says to the first whether notices come; messages go on as they are. */
let say: (isFlowing: boolean) => void
beforeEach(() => {
  ;({ timeline, network } = behindNetwork())
  network.delayMs = 2
  notices.length = 0
  const { onNotice } = network
  const heard: typeof network = Object.assign(network, {
    onNotice: (listener: Parameters<typeof onNotice>[0], flow?: typeof say) => {
      say = flow ?? say
      onNotice(listener)
    },
  })
  other = createTestLessee(heard, timeline, { processId: 'b', outage: 'closed' })
  one = createTestLessee(heard, timeline, { processId: 'a', outage: 'closed' })
  onNotice((_, notice) => notices.push(notice))
})

const burst = (lessee: Lessee, count: number, of = limits): Promise<QuotaDecision[]> =>
  all(Array.from({ length: count }, () => lessee.take('acme', of)))

it('what is left is said by who holds a lease while another takes a burst, and not from memory while notices are missed', async () => {
  // Every 100 ms one, so that a lease is held soon after the first second.
  for (let n = 0; n < 15; n++) {
    void one.take('acme', limits)
    await timeline.pass(100)
  }
  await timeline.pass(SETTLED_MS)
  const next = () => admitted(atOnce(one.take('acme', limits))).view?.minute.remaining
  expect(next()).toBe(600 - 16)
  let before = network.calls.length
  const taken = burst(other, 300)
  await timeline.pass(SETTLED_MS)
  expect((await taken).filter(({ kind }) => kind === 'admitted')).toHaveLength(300)
  const remaining = next()
  expect(remaining).toBeLessThanOrEqual(600 - 317 + SIXTEENTH)
  expect(remaining).toBeGreaterThanOrEqual(600 - 317 - SIXTEENTH)
  // The news costs nobody a call.
  expect(network.calls.length - before).toBeLessThanOrEqual(3)
  expect(notices.filter((notice) => notice === 'free')).toHaveLength(1)

  say(false)
  expect(next()).toBeUndefined()
  expect(one.known('acme', limits)).toBeUndefined()
  before = network.calls.length
  void burst(other, 200)
  await timeline.pass(SETTLED_MS)
  say(true)
  const asked = network.calls.length
  expect(asked - before).toBeLessThanOrEqual(3)
  // Asked for once.
  expect(next()).toBeUndefined()
  await timeline.pass(SETTLED_MS)
  expect(next()).toBeLessThanOrEqual(600 - 520)
  expect(network.calls.length).toBe(asked + 1)
})

it('what is left is asked for ten times a second at most by requests that are free, and said to all of them', async () => {
  const small = { perMinute: 10, perDay: 1000 }
  const peeked: (number | undefined)[] = []
  for (let n = 0; n < 500; n++) {
    if (n === 200) void other.take('acme', small)
    const view = one.peek('acme', small)
    void Promise.resolve(view).then((known) => peeked.push(known?.minute.remaining))
    await timeline.pass(4)
  }
  await timeline.pass(SETTLED_MS)
  expect(network.calls.length).toBeLessThanOrEqual(2 * 10 + 2)
  expect(peeked.slice(0, 200)).toEqual(Array(200).fill(10))
  expect(peeked.slice(230)).toEqual(Array(270).fill(9))
})

it('refusals end within a second when the tokens of others are handed back', async () => {
  const small = { perMinute: 60, perDay: 100_000 }
  const refusedOf = async (lessee: Lessee, count: number): Promise<number> => {
    const asked = burst(lessee, count, small)
    await timeline.pass(100)
    return (await asked).filter(({ kind }) => kind === 'refused').length
  }
  // Both know the client.
  expect(await refusedOf(other, 1)).toBe(0)
  const asked = burst(one, 59, small)
  await timeline.pass(100)
  expect(await refusedOf(other, 20)).toBe(20)
  for (const decision of await asked) one.refund('acme', admitted(decision))
  await timeline.pass(1000)
  expect(await refusedOf(other, 59)).toBe(0)
  expect(await refusedOf(other, 1)).toBe(1)
})
