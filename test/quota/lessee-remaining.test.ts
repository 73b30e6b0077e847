/** What a process says is left while others take too: never above the truth by more than a sixteenth of the limit. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { Lessee } from '../../src/quota/lessee/lessee.ts'
import type { Authority, QuotaDecision } from '../../src/quota/protocol.ts'
import { admitted, all, atOnce } from './lessee-harness.ts'
import { ipcWorld, redisWorld, virtualWorld, type World } from './lessee-worlds.ts'

const limits = { perMinute: 600, perDay: 100_000 }
const SIXTEENTH = 37
/** All calls are answered and all notices have come, on a busy machine too. */
const SETTLED_MS = 300

const remainingOf = (decision: QuotaDecision): number | undefined =>
  admitted(decision).view?.minute.remaining

describe.each([
  { where: 'in virtual time', open: virtualWorld },
  { where: 'on a real Redis', open: redisWorld },
  { where: 'over the channel of workers', open: ipcWorld },
])('what is left $where', ({ open }) => {
  let world: World
  let calls = 0
  const notices: string[] = []
  beforeEach(async () => {
    world = await open()
    calls = 0
    notices.length = 0
  })
  afterEach(() => world.close())

  /** onFlow: says whether notices come; messages go on as they are. */
  const boot = async (
    processId: string,
    onFlow: (say: (isFlowing: boolean) => void) => void = () => undefined,
  ) => {
    const authority = await world.authority()
    const link: Authority = {
      take: (request) => {
        calls += 1
        return authority.take(request)
      },
      onNotice: (listener, say) => {
        if (say !== undefined) onFlow(say)
        authority.onNotice?.((...notice) => {
          if (processId === 'a') notices.push(notice[1])
          listener(...notice)
        }, say)
      },
      close: () => authority.close(),
    }
    const { clock, timers } = world
    return new Lessee({ authority: link, processId, clock, timers, outage: 'closed' })
  }

  it('is said by who holds a lease while another takes a burst, and not from memory while notices are missed', async () => {
    let say: (isFlowing: boolean) => void = () => undefined
    const [one, other] = [await boot('a', (told) => (say = told)), await boot('b')]
    // Every 100 ms one, so that a lease is held soon after the first second.
    for (let n = 0; n < 15; n++) {
      void one.take('acme', limits)
      await world.pass(100)
    }
    await world.pass(SETTLED_MS)
    const next = () => admitted(atOnce(one.take('acme', limits))).view?.minute.remaining
    expect(next()).toBe(600 - 16)
    let before = calls
    const burst = all(Array.from({ length: 300 }, () => other.take('acme', limits)))
    await world.pass(SETTLED_MS)
    expect((await burst).filter(({ kind }) => kind === 'admitted')).toHaveLength(300)
    const remaining = next()
    expect(remaining).toBeLessThanOrEqual(600 - 317 + SIXTEENTH)
    expect(remaining).toBeGreaterThanOrEqual(600 - 317 - SIXTEENTH)
    // The news costs nobody a call.
    expect(calls - before).toBeLessThanOrEqual(3)
    expect(notices.filter((notice) => notice === 'free')).toHaveLength(1)

    say(false)
    expect(next()).toBeUndefined()
    expect(one.known('acme', limits)).toBeUndefined()
    before = calls
    void all(Array.from({ length: 200 }, () => other.take('acme', limits)))
    await world.pass(SETTLED_MS)
    say(true)
    const asked = calls
    expect(asked - before).toBeLessThanOrEqual(3)
    // Asked for once.
    expect(next()).toBeUndefined()
    await world.pass(SETTLED_MS)
    expect(next()).toBeLessThanOrEqual(600 - 520)
    expect(calls).toBe(asked + 1)
    await Promise.all([one.drain(), other.drain(), world.pass(SETTLED_MS)])
  })
})

it.each([
  { turn: 1, callsEach: 0.09 },
  { turn: 30, callsEach: 0.12 },
])(
  'is true at four processes that serve $turn requests in turn, with fewer than 32 notices a minute',
  async ({ turn, callsEach }) => {
    const world = await virtualWorld()
    const { clock, timers, pass } = world
    const authority = await world.authority()
    let [calls, notices, above] = [0, 0, 0]
    authority.onNotice?.(() => (notices += 1))
    const counted: Authority = {
      ...authority,
      take: (request) => {
        calls += 1
        return authority.take(request)
      },
    }
    const lessees = ['a', 'b', 'c', 'd'].map(
      (processId) => new Lessee({ authority: counted, processId, clock, timers, outage: 'closed' }),
    )
    for (let n = 1; n <= 600; n++) {
      const decision = lessees[Math.floor(n / turn) % 4]?.take('acme', limits)
      await pass(60)
      const remaining = remainingOf(await (decision as QuotaDecision | Promise<QuotaDecision>))
      above = Math.max(above, (remaining ?? 0) - (600 - n))
    }
    expect(above).toBeLessThanOrEqual(SIXTEENTH)
    expect(notices).toBeLessThan(32)
    // As many as without news.
    expect(calls / 600).toBeLessThan(callsEach)
    await Promise.all([...lessees.map((lessee) => lessee.drain()), pass(SETTLED_MS)])
    await world.close()
  },
)

it('is asked for ten times a second at most by requests that are free, and said to all of them', async () => {
  const world = await virtualWorld()
  const { clock, timers, pass } = world
  const authority = await world.authority()
  let calls = 0
  const counted: Authority = {
    ...authority,
    take: (request) => {
      calls += 1
      return authority.take(request)
    },
  }
  const small = { perMinute: 10, perDay: 1000 }
  const [one, other] = ['a', 'b'].map(
    (processId) => new Lessee({ authority: counted, processId, clock, timers, outage: 'closed' }),
  ) as [Lessee, Lessee]
  const peeked: (number | undefined)[] = []
  for (let n = 0; n < 500; n++) {
    if (n === 200) void other.take('acme', small)
    const view = one.peek('acme', small)
    void Promise.resolve(view).then((known) => peeked.push(known?.minute.remaining))
    await pass(4)
  }
  await pass(SETTLED_MS)
  expect(calls).toBeLessThanOrEqual(2 * 10 + 2)
  expect(peeked.slice(0, 200)).toEqual(Array(200).fill(10))
  expect(peeked.slice(230)).toEqual(Array(270).fill(9))
  await Promise.all([one.drain(), other.drain(), pass(SETTLED_MS)])
  await world.close()
})
