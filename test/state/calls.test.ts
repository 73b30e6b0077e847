import { setImmediate as turn } from 'node:timers/promises'
import { MessageChannel, type MessagePort } from 'node:worker_threads'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { createAnonymousLimiter } from '../../src/core/credentials/anonymous-limiter.ts'
import { createAddressCounter } from '../../src/state/memory/addresses.ts'
import { answerCalls, IpcCalls } from '../../src/state/calls.ts'
import type { AnswerBatch, CallBatch, CallHandlers } from '../../src/state/calls.ts'
import type { BanRecord } from '../../src/state/bans.ts'
import { StoreUnavailable } from '../../src/state/contract.ts'
import { createSharedAddressCounter, openSupervisorState } from '../../src/state/supervisor/home.ts'
import type { SharedCalls } from '../../src/state/supervisor/home.ts'

const ports: MessagePort[] = []
// Times are the test's own: messages take turns of the event loop, however long those last.
beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] }))
afterEach(() => {
  vi.useRealTimers()
  for (const port of ports.splice(0)) port.close()
})

/** Lets all messages arrive, then so much time pass. */
async function pass(ms: number): Promise<void> {
  for (let turns = 0; turns < 10; turns++) await turn()
  vi.advanceTimersByTime(ms)
  for (let turns = 0; turns < 10; turns++) await turn()
}

const refuse = () => {
  throw new Error('not asked for here')
}
const noHandlers: CallHandlers<SharedCalls> = {
  take: refuse,
  beat: refuse,
  addStrikes: refuse,
  countAddress: refuse,
  loadBans: refuse,
  saveBan: refuse,
}

/** Both ends of a channel that clones what passes; the far end answers unless frozen, and shows the batches it got. */
function link(handlers: Partial<CallHandlers<SharedCalls>>, timeoutMs = 10_000) {
  const { port1, port2 } = new MessageChannel()
  ports.push(port1, port2)
  const states: boolean[] = []
  const batches: CallBatch[] = []
  let held: CallBatch[] | undefined
  const calls = new IpcCalls<SharedCalls>({ send: (batch) => port1.postMessage(batch), timeoutMs })
  calls.onState((available) => states.push(available))
  const answer = (batch: CallBatch): void =>
    answerCalls<SharedCalls>({ ...noHandlers, ...handlers }, batch, (answers) =>
      port2.postMessage(answers),
    )
  port1.on('message', (answers: AnswerBatch) => calls.receive(answers))
  port2.on('message', (batch: CallBatch) => {
    batches.push(batch)
    if (held === undefined) answer(batch)
    else held.push(batch)
  })
  return {
    calls,
    states,
    batches,
    freeze: () => (held = []),
    thaw: () => {
      const late = held ?? []
      held = undefined
      for (const batch of late) answer(batch)
    },
  }
}

/** A link whose far end counts strikes. */
function counting(timeoutMs?: number, more: Partial<CallHandlers<SharedCalls>> = {}) {
  const counts = new Map<string, number>()
  const addStrikes: CallHandlers<SharedCalls>['addStrikes'] = ({ keyId, points }) => {
    const total = (counts.get(keyId) ?? 0) + points
    counts.set(keyId, total)
    return { total, forMs: 0 }
  }
  return { ...link({ addStrikes, ...more }, timeoutMs), counts }
}
const add = async (calls: IpcCalls<SharedCalls>, keyId: string) =>
  (await calls.call('addStrikes', { keyId, points: 1 })).total

describe('calls over IPC', () => {
  it('send what is asked in one turn as one message, and what comes meanwhile as the next', async () => {
    const { calls, batches } = counting()
    const first = Promise.all(['a', 'b', 'a'].map((key) => add(calls, key)))
    await turn()
    const second = Promise.all(['a', 'b'].map((key) => add(calls, key)))
    expect(await first).toEqual([1, 1, 2])
    expect(await second).toEqual([3, 2])
    expect(batches.map((batch) => batch.calls.length)).toEqual([3, 2])
  })

  it('bound a message, and lose no call beyond it', async () => {
    const { calls, batches } = counting()
    const totals = await Promise.all(Array.from({ length: 2_500 }, () => add(calls, 'a')))
    expect(totals).toEqual(Array.from({ length: 2_500 }, (_, at) => at + 1))
    expect(batches.map((batch) => batch.calls.length)).toEqual([1_000, 1_000, 500])
  })

  it('hold up no others while the far end cannot decide one of them, and fail alone', async () => {
    const bans = Promise.withResolvers<ReadonlyMap<string, BanRecord>>()
    const { calls, states } = counting(500, { loadBans: () => bans.promise })
    const late = [calls.call('loadBans', undefined), calls.call('loadBans', undefined)]
    expect(await Promise.all([add(calls, 'a'), add(calls, 'b')])).toEqual([1, 1])
    expect(await add(calls, 'a')).toBe(2)
    const known = new Map()
    bans.resolve(known)
    expect(await Promise.all(late)).toEqual([known, known])

    const never = counting(50, { loadBans: () => new Promise(() => {}) })
    const undecided = never.calls.call('loadBans', undefined)
    const failed = expect(undecided).rejects.toBeInstanceOf(StoreUnavailable)
    await pass(50)
    await failed
    expect(await add(never.calls, 'a')).toBe(1)
    expect([...states, ...never.states]).toEqual([])
  })

  it('fail each in time while an answer is late, and only those: who comes then has the next', async () => {
    const { calls, states, freeze, thaw, batches } = counting(400)
    freeze()
    const failed: string[] = []
    const ask = (name: string) =>
      add(calls, name).then(
        () => false,
        () => failed.push(name) > 0,
      )
    const first = ask('first')
    await pass(300)
    const second = ask('second')
    await pass(100)
    expect(await first).toBe(true)
    expect(failed).toEqual(['first'])
    await pass(300)
    expect(await second).toBe(true)
    const third = ask('third')
    thaw()
    expect([await third, failed, batches.length]).toEqual([false, ['first', 'second'], 2])
    expect([calls.available, states]).toEqual([true, []])
  })

  it('fail in time when nobody answers, at once after a second of that, and go on with a late answer', async () => {
    const { calls, counts, states, freeze, thaw, batches } = counting(100)
    freeze()
    const startedMs = performance.now()
    while (calls.available) {
      const failed = expect(add(calls, 'a')).rejects.toBeInstanceOf(StoreUnavailable)
      await pass(100)
      await failed
    }
    expect(performance.now() - startedMs).toBe(1_000)
    expect(states).toEqual([false])
    for (let at = 0; at < 100; at++)
      await expect(add(calls, 'a')).rejects.toBeInstanceOf(StoreUnavailable)
    // Nothing queues up at a supervisor that stands still.
    expect(batches).toHaveLength(1)
    thaw()
    await pass(0)
    expect(states).toEqual([false, true])
    // The call that timed out was carried out late; whoever calls has to allow for that, as with Redis.
    expect(counts.get('a')).toBe(1)
    expect(await add(calls, 'a')).toBe(2)
  })

  it('fail at once beyond 20,000 that are open, so that none pile up at an end that hangs', async () => {
    const { calls } = link({ loadBans: () => new Promise(() => {}) })
    const failed = vi.fn()
    for (let at = 0; at < 20_010; at++) calls.call('loadBans', undefined).catch(failed)
    await turn()
    expect(failed).toHaveBeenCalledTimes(10)
    calls.close()
  })

  it('give an answer that is there its turn when the event loop was held up', async () => {
    const { calls } = counting(500)
    const total = add(calls, 'a')
    for (let turns = 0; turns < 2; turns++) await turn()
    vi.advanceTimersByTime(800)
    expect(await total).toBe(1)
  })

  it('fail at once when the channel is gone, those under way too', async () => {
    const { calls, freeze } = counting()
    freeze()
    const underway = add(calls, 'a')
    await turn()
    const queued = add(calls, 'a')
    calls.close()
    await expect(underway).rejects.toBeInstanceOf(StoreUnavailable)
    await expect(queued).rejects.toBeInstanceOf(StoreUnavailable)
    await expect(add(calls, 'a')).rejects.toBeInstanceOf(StoreUnavailable)
    expect(calls.available).toBe(false)
  })
})

describe('strikes over all workers', () => {
  it('count at the supervisor, and for this worker alone while it is silent', async () => {
    const { calls, counts, freeze } = counting(50)
    const state = openSupervisorState({ calls, onNotice: () => undefined })
    const strikes = state.strikes(60_000)
    const totals = async (...points: number[]) => {
      const counts = []
      for (const n of points) counts.push((await strikes.add('a', n, Date.now())).total)
      return counts
    }
    expect(await totals(2, 1)).toEqual([2, 3])
    freeze()
    const alone = totals(1, 1)
    for (let late = 0; late < 2; late++) await pass(50)
    expect(await alone).toEqual([1, 2])
    expect(counts.get('a')).toBe(3)
  })
})

describe('addresses over all workers', () => {
  const startMs = 1_790_000_040_000
  const perMinute = 10
  let nowMs = startMs
  const now = (): number => nowMs

  /** Makes workers of one supervisor. */
  function supervised() {
    nowMs = startMs
    const supervisor = createAddressCounter({ now })
    return (timeoutMs = 10_000) => {
      const countAddress = (asked: { address: string; points: number }) => supervisor.add(asked)
      const linked = link({ countAddress }, timeoutMs)
      const counter = createSharedAddressCounter(linked.calls, now)
      return { ...linked, counter, limiter: createAnonymousLimiter({ perMinute, counter, now }) }
    }
  }

  it('are admitted as often as by one, each count its own, and looked at without a charge', async () => {
    const worker = supervised()
    const [one, other] = [worker(), worker()]
    const views = await Promise.all(
      Array.from({ length: 16 }, async (_, at) => (at % 2 ? one : other).limiter.count('a')),
    )
    expect(views.filter((view) => !view.exceeded)).toHaveLength(10)
    const left = views.filter((view) => !view.exceeded).map((view) => view.remaining)
    expect(left.sort((a, b) => a - b)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    expect(await one.limiter.peek('b')).toMatchObject({ remaining: 10, exceeded: false })
    expect(await one.limiter.peek('a')).toMatchObject({ remaining: 0, exceeded: true })
  })

  it('are asked for again where the limit was raised meanwhile', async () => {
    const one = supervised()()
    for (let at = 0; at < 12; at++) await one.limiter.count('a')
    const raised = createAnonymousLimiter({ perMinute: 20, counter: one.counter, now })
    const views = []
    for (let at = 0; at < 11; at++) views.push(await raised.count('a'))
    // Of the two that were refused only this worker knows.
    expect(views.map(({ exceeded }) => exceeded)).toEqual([...Array<boolean>(10).fill(false), true])
    nowMs += 60_000
    expect(await one.limiter.count('a')).toMatchObject({ remaining: 9, exceeded: false })
  })

  it('ask the supervisor a bounded number of times a second, however many they are', async () => {
    const one = supervised()()
    for (let at = 0; at < 12_000; at += 1_000)
      await Promise.all(
        Array.from({ length: 1_000 }, async (_, more) => one.limiter.count(`${at + more}`)),
      )
    const asked = one.batches.flatMap(({ calls }) => calls)
    expect(asked).toHaveLength(5_000)
    nowMs += 1_000
    await one.limiter.count('later')
    expect(one.batches.flatMap(({ calls }) => calls)).toHaveLength(5_001)
  })

  it('are counted by each worker for itself while the supervisor is silent', async () => {
    const one = supervised()(50)
    one.freeze()
    for (const remaining of [9, 8]) {
      const counted = one.limiter.count('a')
      await pass(50)
      expect(await counted).toMatchObject({ remaining, exceeded: false })
    }
    one.thaw()
    // The supervisor has had the first, late.
    expect(await one.limiter.count('a')).toMatchObject({ remaining: 8 })
  })
})
