import { copyFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { openSqliteFile, type SqliteFile } from '../../../src/state/sqlite/file.ts'
import { openSqliteState } from '../../../src/state/sqlite/home.ts'
import { createEmbeddedAuthority } from '../../../src/state/memory/authority.ts'
import type { EmbeddedAuthority } from '../../../src/state/memory/authority.ts'
import { StoreUnavailable } from '../../../src/state/contract.ts'
import { Journal, type Row } from '../../../src/state/sqlite/quota-journal.ts'
import type { Statement, TakeRequest } from '../../../src/state/quota.ts'
import { createEmbeddedCounters } from '../../../src/state/counters.ts'
import { authorityContract } from '../../contract/authority.ts'
import { START_MS, until } from '../../support/controlled-authority.ts'
import { gatewayEnds } from '../../support/ending.ts'
import { temporaryFolder } from '../../support/processes.ts'
import { callOf } from './lessee-harness.ts'

const MINUTE = Math.floor(START_MS / 60_000)
const DAY = Math.floor(START_MS / 86_400_000)
const limits = { perMinute: 10, perDay: 100 }
const hold = (used: number): Statement => ({ index: MINUTE, used, held: used })
const dayHold = (used: number): Statement => ({ index: DAY, used, held: used })
const above = (least: number): unknown => expect.toSatisfy((number: number) => number > least)
const below = (most: number): unknown => expect.toSatisfy((number: number) => number < most)

const directory = temporaryFolder()
let boots = 0
const call = (client: string, change: Partial<TakeRequest> = {}): TakeRequest =>
  callOf({ client, process: `boot-${boots}`, limits, need: 1, ...change })
const unexpected = (reported: unknown): void => {
  throw new Error(`unexpected: ${String(reported)}`)
}

authorityContract('a file', async (time) => {
  const file = openSqliteFile(join(directory, 'contract.db'), unexpected)
  const clock = { epochMs: () => time.ms }
  const options = { timeoutMs: 100, clock, onFault: unexpected }
  const { embedded: authority, ready } = openSqliteState(file, options)
  gatewayEnds(() => authority.close())
  await ready()
  return authority
})

/** Asks again while the store says that it is unavailable. */
const asked = <Answer>(ask: () => Promise<Answer>): Promise<Answer> =>
  ask().catch((error) => {
    if (error instanceof StoreUnavailable) return asked(ask)
    throw error
  })

describe('the counters of the embedded authority', () => {
  let clock: { ms: number }
  let beginRound: () => void
  let file: string
  const open: EmbeddedAuthority[] = []
  /** The file of the latest authority. */
  let disk: SqliteFile
  const start = async (
    options: Partial<Parameters<typeof openSqliteState>[1]> = {},
  ): Promise<EmbeddedAuthority> => {
    boots++
    const timers = {
      every: (_: number, task: () => void) => ((beginRound = task), () => undefined),
    }
    disk = openSqliteFile(file, unexpected)
    const { embedded: authority, ready } = openSqliteState(disk, {
      timeoutMs: 100,
      clock: { epochMs: () => clock.ms },
      timers,
      onFault: unexpected,
      ...options,
    })
    open.push(authority)
    await ready()
    return authority
  }
  const rows = () => disk.read('SELECT * FROM quota ORDER BY client')
  /** Lets rounds of writing begin until this is in the file. */
  const saved = (client: string, minuteTaken: number): Promise<void> =>
    until(async () => {
      beginRound()
      return (await rows()).some(
        (row) => row['client'] === client && row['minute_taken'] === minuteTaken,
      )
    })

  beforeEach(() => {
    clock = { ms: START_MS }
    file = join(directory, `counts-${++boots}.db`)
  })
  afterEach(async () => {
    await Promise.all(open.splice(0).map((authority) => authority.close()))
  })

  it.each<{
    title: string
    before(take: (change?: Partial<TakeRequest>) => void): void
    ask: Partial<TakeRequest>
    reply: object
  }>([
    {
      title: 'are there, to the last one',
      before: (take) => take({ need: 7 }),
      ask: { need: 5 },
      reply: {
        status: 'short',
        minute: { index: MINUTE, held: 3, taken: 10, used: 10 },
        day: { index: DAY, held: 3, taken: 10, used: 10 },
      },
    },
    {
      title: 'count what processes held as spent, whether they spent it or not',
      before: (take) => {
        take()
        clock.ms += 1000
        take({ process: 'other', want: 4 })
      },
      ask: { need: 9 },
      reply: { status: 'short', minute: { taken: 10, used: 10, held: below(6) } },
    },
    {
      title: 'are known ones: nothing is lost, nobody is asked, and leases go on at once',
      before: (take) => take(),
      ask: { minute: hold(1), day: dayHold(1), want: 5 },
      reply: { status: 'granted', notice: undefined, minute: { held: above(2) } },
    },
    {
      title: 'forget the minute when it has ended meanwhile, and keep the day',
      before: (take) => {
        take({ need: 7 })
        clock.ms += 60_000
      },
      ask: { need: 10 },
      reply: {
        status: 'granted',
        minute: { index: MINUTE + 1, taken: 10 },
        day: { index: DAY, taken: 17 },
      },
    },
    {
      title: 'open no ended window again, though the clock went back by a small skew',
      before: (take) => {
        take({ need: 3 })
        clock.ms += 60_000
        take({ need: 10, sequence: 2 })
        clock.ms = START_MS
      },
      ask: {},
      reply: { status: 'short', minute: { index: MINUTE + 1, taken: 10 } },
    },
  ])('$title, after a clean stop', async ({ before, ask, reply }) => {
    const stopped = await start()
    before((change) => void stopped.take(call('acme', change)))
    await stopped.close()
    const after = await start()
    expect(after.size).toBe(1)
    expect(await after.take(call('acme', ask))).toMatchObject(reply)
  })

  it('of ended days leave the file, an hour after, in a running process and at a start', async () => {
    const before = await start()
    void before.take(call('early'))
    await saved('early', 1)
    clock.ms = (DAY + 1) * 86_400_000
    void before.take(call('late'))
    await saved('late', 1)
    expect((await rows()).map(({ client }) => client)).toEqual(['early', 'late'])
    clock.ms += 3_600_000
    await until(async () => {
      beginRound()
      return (await rows()).length === 1
    })
    expect(await rows()).toMatchObject([{ client: 'late', day_index: DAY + 1 }])
    await before.close()
    clock.ms += 86_400_000
    const after = await start()
    expect(after.size).toBe(0)
    await after.close()
    await start()
    expect(await rows()).toEqual([])
  })

  it('of more clients than fit in memory are read back from the file when they come again', async () => {
    const before = await start({ maxClients: 50, timeoutMs: 5_000 })
    const names = Array.from({ length: 400 }, (_, n) => `client-${n}`)
    for (const [n, name] of names.entries())
      await asked(async () => before.take(call(name, { need: 1 + (n % 9) })))
    await saved('client-399', 1 + (399 % 9))
    expect(before.size).toBeLessThanOrEqual(60)
    expect(await rows()).toHaveLength(400)
    const taken = async (authority: EmbeddedAuthority): Promise<number[]> => {
      const counts: number[] = []
      for (const name of names) {
        const request = call(name, { need: 0 })
        // A busy machine may be late in reading a row.
        counts.push(await asked(async () => (await authority.take(request)).day.taken))
      }
      return counts
    }
    const expected = names.map((_, n) => 1 + (n % 9))
    expect(await taken(before)).toEqual(expected)
    // Several for one client at once, while it is read.
    const more = ['b', 'c'].map((process) =>
      asked(async () => (await before.take(call('client-0', { process, need: 6 }))).status),
    )
    expect(await Promise.all(more)).toEqual(['granted', 'short'])
    // And of one that has no row.
    const first = ['b', 'c'].map((process) => {
      const request = call('new', { process })
      return asked(async () => (await before.take(request)).minute.taken)
    })
    expect(new Set(await Promise.all(first))).toEqual(new Set([1, 2]))
    await before.close()
    const after = await start({ maxClients: 50, timeoutMs: 5_000 })
    expect(after.size).toBe(50)
    expect(await taken(after)).toEqual([10, ...expected.slice(1)])
  })

  it('are left as a crash has left them by a start that is given up before it has read them', async () => {
    void (await start()).take(call('acme'))
    await saved('acme', 1)
    const left = `${file}-left`
    for (const part of ['', '-wal']) copyFileSync(file + part, left + part)
    const options = { timeoutMs: 100, onFault: unexpected }
    await openSqliteState(openSqliteFile(left, unexpected), options).close()
    const again = openSqliteFile(left, unexpected)
    expect(await again.read('SELECT ahead FROM quota')).toEqual([{ ahead: 1 }])
    await again.close()
  })

  it('that cannot be read back make the store count as away', async () => {
    const before = await start({ maxClients: 5, timeoutMs: 5_000 })
    for (let n = 0; n < 20; n++) await before.take(call(`client-${n}`))
    await saved('client-19', 1)
    await before.take(call('client-20'))
    await disk.read('ALTER TABLE quota RENAME TO elsewhere')
    await expect(before.take(call('client-0'))).rejects.toMatchObject({ reason: 'error' })
    await disk.read('ALTER TABLE elsewhere RENAME TO quota')
    expect(await before.take(call('client-0', { need: 0 }))).toMatchObject({ day: { taken: 1 } })
  })

  it('stay in memory while the disk is full, which is reported once, and are kept when there is room again', async () => {
    const onFault = vi.fn<(error: unknown) => void>()
    const onRecovered = vi.fn<() => void>()
    const before = await start({ onFault, onRecovered })
    await disk.read('PRAGMA max_page_count = 1')
    for (let n = 0; n < 3_000; n++) void before.take(call(`client-${n}`))
    await until(() => {
      beginRound()
      return onFault.mock.calls.length > 0
    })
    expect(onFault.mock.calls[0]?.[0]).toEqual(
      new Error(`store.file ${file} cannot be written, as the disk is full; make room`),
    )
    for (let tries = 0; tries < 5; tries++) {
      beginRound()
      // Answered after what the round has asked for.
      await rows()
    }
    void before.take(call('client-7', { sequence: 2, need: 3, minute: hold(1), day: dayHold(1) }))
    expect(onFault).toHaveBeenCalledOnce()
    expect(onRecovered).not.toHaveBeenCalled()
    await disk.read('PRAGMA max_page_count = 100000')
    await saved('client-2999', 1)
    await saved('client-7', 4)
    await until(() => onRecovered.mock.calls.length > 0)
    expect(onRecovered).toHaveBeenCalledOnce()
    expect(await rows()).toHaveLength(3_000)
  })
})

/** The file as the journal sees it, which answers when it is told to. */
function slowFile(timeoutMs: number, restored: readonly Row[] = [], maxClients = 100) {
  const kept = new Map<string, Row>()
  let underway: { readonly rows: readonly Row[]; done(): void } | undefined
  const rows = {
    save: (saved: readonly Row[]) =>
      new Promise<void>((done) => (underway = { rows: saved, done })),
    find: async (client: string) => kept.get(client),
    removeDaysBefore: async () => undefined,
    dropAhead: async () => undefined,
    close: async () => undefined,
  }
  const clock = { epochMs: Date.now }
  const timers = { every: () => () => undefined }
  const [onFault, onRecovered] = [unexpected, () => undefined]
  const keeper = new Journal({ timeoutMs, rows, clock, timers, onFault, onRecovered })
  const authority = createEmbeddedAuthority({ clock, maxClients, keeper })
  authority.restore(restored)
  keeper.begin()
  const answer = (): void => {
    for (const row of underway?.rows ?? []) kept.set(row.client, row)
    underway?.done()
    underway = undefined
  }
  return { authority, kept, answer }
}
const turn = () => new Promise((resolve) => setImmediate(resolve))

describe('a file that answers late', () => {
  beforeAll(() => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'], now: START_MS })
  })
  afterAll(() => void vi.useRealTimers())

  it('is waited for 80 ms of 100, by whoever comes before that is seen, and by nobody then', async () => {
    const { authority, answer } = slowFile(100)
    const decided: string[] = []
    const ask = (client: string): void => {
      const reply = authority.take(call(client))
      if (reply instanceof Promise) void reply.then(() => decided.push(client))
      else decided.push(`${client} at once`)
    }
    await turn()
    ask('one')
    await turn()
    vi.advanceTimersByTime(50)
    // Goes with the next write: the one under way does not make its wait longer.
    ask('other')
    await turn()
    vi.advanceTimersByTime(30)
    await turn()
    expect(decided).toEqual(['one'])
    ask('third')
    expect(decided).toEqual(['one', 'third at once'])
    vi.advanceTimersByTime(50)
    await turn()
    expect(decided).toEqual(['one', 'third at once', 'other'])
    answer()
    await turn()
    ask('fourth')
    await turn()
    expect(decided).toHaveLength(3)
    for (let write = 0; write < 2; write++) {
      answer()
      await turn()
    }
    expect(decided).toEqual(['one', 'third at once', 'other', 'fourth'])
  })

  it('has of a client what memory has, or a row that is under way: then it is not forgotten', async () => {
    const { authority, answer } = slowFile(60_000, [], 1)
    const ask = (client: string, process: string, need: number) =>
      authority.take(call(client, { process, need }))
    const first = ask('acme', 'one', 1)
    await turn()
    answer()
    await first
    // The row says as much and is soon too little; another client comes while the next one is written.
    await ask('acme', 'two', 1)
    await turn()
    void ask('other', 'one', 0)
    expect(await ask('acme', 'three', 0)).toMatchObject({ minute: { taken: 2 } })
  })

  it('has a reset before that is answered, so that a crash cannot undo it any more', async () => {
    const used = { minuteIndex: MINUTE, minuteTaken: 5, dayIndex: DAY, dayTaken: 5, ahead: 0 }
    const { authority, kept, answer } = slowFile(60_000, [{ client: 'acme', ...used }])
    const counters = createEmbeddedCounters(authority, () => undefined)
    const looked = await counters.attend({ id: 'acme', limits }, [])
    expect(looked.after).toMatchObject({ minute: { taken: 5 }, day: { taken: 5 } })
    const answered = vi.fn()
    const reset = counters.attend({ id: 'acme', limits }, ['day']).then(answered)
    for (let turns = 0; turns < 5; turns++) await turn()
    expect(answered).not.toHaveBeenCalled()
    answer()
    await reset
    expect(kept.get('acme')).toMatchObject({ minuteTaken: 5, dayTaken: 0 })
  })
})
