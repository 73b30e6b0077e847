/** What every home of state must do, whatever keeps it. */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { Counters } from '../../src/insight/usage/counters.ts'
import type { BanRecord } from '../../src/state/bans.ts'
import type { State } from '../../src/state/contract.ts'
import type { DayRow } from '../../src/state/usage.ts'
import type { Notice, TakeReply, TakeRequest } from '../../src/state/quota.ts'
import { until } from '../support/until.ts'
import { closeAll, homes, ownHomes } from './homes.ts'

afterEach(closeAll)

const none = { index: -1, used: 0, held: 0 }
const limits = { perMinute: 1_000, perDay: 25 }
let sequence = 0

/** Asks for one token until the authority knows the client; each call is that of another process, unless it says otherwise. */
async function take({ authority }: State, change: Partial<TakeRequest> = {}): Promise<TakeReply> {
  for (;;) {
    const call = { client: 'acme', process: `process-${++sequence}`, sequence, limits }
    const reply = await authority.take({
      ...call,
      minute: none,
      day: none,
      need: 1,
      want: 1,
      ...change,
    })
    if (reply.status !== 'lost') return reply
    await sleep(20)
  }
}

const startedMs = Date.now() - 1_000
const ban: BanRecord = { startedMs, untilMs: startedMs + 600_000, count: 2 }
const byOperator: BanRecord = {
  startedMs,
  untilMs: startedMs + 300_000,
  count: 0,
  epochMs: startedMs,
  by: 'operator',
  reason: 'too "much", 很多',
}
const all = async ({ bans }: State) => Object.fromEntries(await bans.load())

describe.each(homes)('state in $name', ({ name, isShared, place }) => {
  it('grants what is left, and no more, to processes that ask at once', async () => {
    const state = await place().open()
    const replies = await Promise.all(Array.from({ length: 60 }, () => take(state)))
    const granted = replies.filter(({ status }) => status === 'granted')
    const byDay = Map.groupBy(granted, ({ day }) => day.index).values()
    // A day that begins meanwhile has a limit of its own.
    expect(Math.max(...Array.from(byDay, ({ length }) => length))).toBe(limits.perDay)
  })

  it('knows the latest sign of life of each process, until its last', async () => {
    const { authority } = await place().open()
    const beat = async (process: string, isLast = false) =>
      [
        ...((await authority.beat?.({ process, isLast })) ?? new Map<string, number>()).keys(),
      ].sort()
    expect(await beat('a')).toEqual(['a'])
    expect(await beat('b')).toEqual(['a', 'b'])
    await beat('a', true)
    expect(await beat('b')).toEqual(['b'])
  })

  it('counts strikes by key', async () => {
    const strikes = (await place().open()).strikes(60_000)
    const add = async (key: string, points: number) => strikes.add(key, points, Date.now())
    expect(await add('a', 2)).toMatchObject({ total: 2 })
    expect(await add('a', 3)).toMatchObject({ total: 5 })
    expect(await add('b', 1)).toMatchObject({ total: 1 })
    if (name === 'the supervisor') return
    await strikes.reset('a')
    expect(await add('a', 1)).toMatchObject({ total: 1 })
  })

  it('says that there may be bans to load as soon as it is watched', async () => {
    const state = await place().open()
    let isStale = false
    const ignore = (): void => undefined
    state.bans.watch({ stale: () => (isStale = true), banned: ignore })
    await until(() => isStale)
  })

  const kept = name === 'memory' ? undefined : it
  kept?.('keeps the last ban of each key, and forgets exactly the one it is told to', async () => {
    const state = await place().open()
    await state.bans.save('one', { ...ban, untilMs: ban.untilMs - 1, count: 1 })
    await state.bans.save('one', ban)
    await state.bans.save('other', ban)
    expect(await all(state)).toEqual({ one: ban, other: ban })
    expect((await state.bans.load('one')).get('one')).toEqual(ban)
    if (name === 'the supervisor') return
    await state.bans.forget('one', { ...ban, untilMs: ban.untilMs - 1 })
    expect(await all(state)).toEqual({ one: ban, other: ban })
    await state.bans.forget('one', ban)
    expect(await all(state)).toEqual({ other: ban })
  })

  kept?.('keeps the act of an operator against bans by those who did not know it', async () => {
    const state = await place().open()
    await state.bans.save('one', ban)
    await state.bans.save('one', byOperator)
    await state.bans.save('one', { ...ban, untilMs: ban.untilMs + 60_000 })
    expect(await all(state)).toEqual({ one: byOperator })
  })

  const shared = isShared ? it : undefined
  shared?.('is one for all who open it', async () => {
    const at = place()
    const [one, other] = [await at.open(), await at.open()]
    await one.bans.save('key', ban)
    expect(await all(other)).toEqual({ key: ban })
    for (const state of [one, other]) await take(state)
    expect(await take(one)).toMatchObject({ day: { taken: 3 } })
    const [strikes, others] = [one.strikes(60_000), other.strikes(60_000)]
    await strikes.add('key', 2, Date.now())
    expect(await others.add('key', 1, Date.now())).toMatchObject({ total: 3 })
  })

  // The supervisor has the clock of its workers.
  const remote = name === 'Redis' ? it : undefined
  remote?.(
    'says its time with its bans, so that a process that asks for nothing else knows which of them run',
    async () => {
      const { bans, clock } = await place().open()
      const set = vi.spyOn(clock, 'set')
      await bans.load()
      const [storeMs, tookMs] = set.mock.calls[0] ?? expect.fail('nothing was said')
      expect(Math.abs(storeMs - Date.now())).toBeLessThan(60_000)
      expect(tookMs).toBeGreaterThan(0)
    },
  )
})

const today = Math.floor(Date.now() / 86_400_000)
const row: DayRow = {
  client: 'acme',
  plan: 'free',
  admitted: 3,
  refusedMinute: 1,
  refusedDay: 0,
  refusedBan: 2,
}
const acme = { id: 'acme', limits }

describe.each(ownHomes)('all state in $name', ({ isLasting, isShared, place }) => {
  it('is well once it is ready', async () => {
    const { health } = await place().open()
    expect(health).toMatchObject({ available: true, refusal: undefined })
  })

  it('shows operators what is counted, and sets it back, of which all processes hear', async () => {
    const state = await place().open()
    const heard: Notice[] = []
    let isFlowing = !isShared
    state.authority.onNotice?.(
      (_, notice) => heard.push(notice),
      (is) => (isFlowing = is),
    )
    await until(() => isFlowing)
    const { minute, day } = await take(state, { process: 'a' })
    // What the latest call brought may still be spent: the next one brings nothing.
    await take(state, {
      process: 'a',
      minute: { index: minute.index, used: 1, held: 1 },
      day: { index: day.index, used: 1, held: 1 },
      need: 0,
      want: 0,
    })
    const counters = new Counters(state.counters)
    const [known] = await counters.look([acme])
    expect(known?.day).toEqual({ index: day.index, taken: 1, used: 1 })
    const { before, after } = await counters.reset(acme, ['day'])
    expect([before.day.used, after.day.used, after.day.taken]).toEqual([1, 0, 0])
    await until(() => heard.includes('reset'))
    expect((await counters.settled(acme)).day).toEqual(after.day)
  })

  it('lets one gateway send a notice, and nobody once it was sent', async () => {
    const at = place()
    const one = await at.open()
    expect([await one.claims.take('a'), await one.claims.take('a')]).toEqual(['own', 'own'])
    if (!isShared) return
    const other = await at.open()
    expect(await other.claims.take('a')).toBe('others')
    await one.claims.done('a', Date.now() + 60_000)
    expect(await other.claims.take('a')).toBe('done')
    expect(await other.claims.take('b')).toBe('own')
  })

  it('is what an earlier process left, or empty', async () => {
    const at = place()
    const before = await at.open()
    const { day } = await take(before)
    await before.bans.save('key', ban)
    const batch = { process: 'boot', sequence: 1, day: today, rows: [row] }
    await before.usage.add(batch)
    await before.close()
    const after = await at.open()
    const [known] = await new Counters(after.counters).look([acme])
    expect(known?.day.taken).toBe(isLasting && known?.day.index === day.index ? 1 : 0)
    expect(await all(after)).toEqual(isLasting ? { key: ban } : {})
    expect(await after.usage.client('acme', today, today)).toEqual(isLasting ? [[today, row]] : [])
    await after.close()
  })
})
