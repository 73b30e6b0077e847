/**
 * What is stored is read by the version before and after. Here stands what the version before writes, word for word: this
 * version reads it, and writes the same.
 */
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe, expect, it } from 'vitest'
import type { BanRecord } from '../../src/state/bans.ts'
import type { DayRow } from '../../src/state/usage.ts'
import type { OwnState } from '../../src/state/contract.ts'
import type { TakeRequest } from '../../src/state/quota.ts'
import { createRedisCounters } from '../../src/state/redis/authority.ts'
import { openRedisState } from '../../src/state/redis/home.ts'
import { openSqliteFile } from '../../src/state/sqlite/file.ts'
import { openSqliteState } from '../../src/state/sqlite/home.ts'
import { controlledRedisAuthority, controlledStore } from '../support/controlled-authority.ts'
import { START_MS } from '../support/controlled-authority.ts'
import { gatewayEnds } from '../support/ending.ts'
import { temporaryFolder } from '../support/processes.ts'
import { sharedRedis } from '../support/redis-server.ts'
import { redisAt } from '../support/redis-servers.ts'
import { until } from '../support/until.ts'

const bans: Readonly<Record<string, BanRecord>> = {
  'acme-1': { untilMs: 4_118_110_000_000, count: 2, startedMs: 4_118_109_000_000 },
  'acme-2': {
    untilMs: 4_118_120_000_000,
    count: 0,
    startedMs: 4_118_109_000_000,
    epochMs: 4_118_109_000_000,
    by: 'operator',
    reason: 'too "much"',
  },
}
const BANS = {
  'acme-1': '{"untilMs":4118110000000,"count":2,"startedMs":4118109000000}',
  'acme-2':
    '{"untilMs":4118120000000,"count":0,"startedMs":4118109000000,"epochMs":4118109000000,"by":"operator","reason":"too \\"much\\""}',
}

/** 2100-07-01. */
const DAY = 47_663
const total = (plan: string, admitted: number): DayRow => ({
  client: 'acme',
  plan,
  admitted,
  refusedMinute: 1,
  refusedDay: 0,
  refusedBan: 2,
})
const days = [total('free', 5), total('pro', 7)]
const batches = days.map((row, at) => ({
  process: 'boot',
  sequence: at + 1,
  day: DAY,
  rows: [row],
}))
const none = { index: -1, used: 0, held: 0 }
const call = (change: Partial<TakeRequest>): TakeRequest => ({
  client: 'acme',
  process: 'a',
  sequence: 1,
  limits: { perMinute: 160, perDay: 1_000 },
  minute: none,
  day: none,
  need: 1,
  want: 1,
  ...change,
})

async function write({ bans: store, usage }: Pick<OwnState, 'bans' | 'usage'>): Promise<void> {
  for (const [key, ban] of Object.entries(bans)) await store.save(key, ban)
  for (const batch of batches) await usage.add(batch)
}

async function expectAllIn({ bans: store, usage }: Pick<OwnState, 'bans' | 'usage'>) {
  expect(Object.fromEntries(await store.load())).toEqual(bans)
  expect(await usage.client('acme', DAY, DAY)).toEqual(days.map((row) => [DAY, row]))
}

describe('store.file', () => {
  const COLUMNS = {
    bans: 'key_id TEXT, until_ms INTEGER, count INTEGER, started_ms INTEGER, epoch_ms INTEGER, made_by TEXT, reason TEXT',
    quota:
      'client TEXT, minute_index INTEGER, minute_taken INTEGER, day_index INTEGER, day_taken INTEGER, ahead INTEGER',
    usage:
      'day INTEGER, client TEXT, plan TEXT, admitted INTEGER, refused_minute INTEGER, refused_day INTEGER, refused_ban INTEGER, batch INTEGER',
    usage_by_plan:
      'day INTEGER, client TEXT, plan TEXT, admitted INTEGER, refused_minute INTEGER, refused_day INTEGER, refused_ban INTEGER, batch INTEGER',
  }
  const ROWS = {
    bans: [
      ['acme-1', 4_118_110_000_000, 2, 4_118_109_000_000, null, null, null],
      [
        'acme-2',
        4_118_120_000_000,
        0,
        4_118_109_000_000,
        4_118_109_000_000,
        'operator',
        'too "much"',
      ],
    ],
    usage: [[DAY, 'acme', 'free', 12, 2, 0, 4]],
    usage_by_plan: [[DAY, 'acme', 'pro', 7, 1, 0, 2]],
  }
  const MARK = { application_id: 0x746f6c6c, user_version: 1 }
  /** The client of a gateway that was killed: ten more tokens may have been taken. */
  const LEFT = ['acme', Math.floor(START_MS / 60_000), 3, DAY, 5, 10]

  const open = async (path: string): Promise<OwnState> => {
    const unexpected = (fault: unknown): void => {
      throw new Error(JSON.stringify(fault))
    }
    const clock = { epochMs: () => START_MS }
    const options = { clock, timeoutMs: 1_000, onFault: unexpected }
    const state = openSqliteState(openSqliteFile(path, unexpected), options)
    gatewayEnds(() => state.close())
    await state.ready()
    return state
  }

  it('of the version before is read', async () => {
    const path = join(temporaryFolder(), 'before.db')
    const database = new DatabaseSync(path)
    const keys = {
      bans: 'key_id',
      quota: 'client',
      usage: 'day, client',
      usage_by_plan: 'day, client, plan',
    }
    for (const [table, columns] of Object.entries(COLUMNS)) {
      const key = keys[table as keyof typeof keys]
      database.exec(
        `CREATE TABLE ${table} (${columns}, PRIMARY KEY (${key})) STRICT, WITHOUT ROWID`,
      )
    }
    const rows = { ...ROWS, quota: [LEFT] }
    for (const [table, list] of Object.entries(rows))
      for (const row of list) {
        const values = table.startsWith('usage') ? [...row, 1] : row
        database
          .prepare(`INSERT INTO ${table} VALUES (${values.map(() => '?').join()})`)
          .run(...values)
      }
    for (const [name, value] of Object.entries(MARK)) database.exec(`PRAGMA ${name} = ${value}`)
    database.close()
    const state = await open(path)
    await expectAllIn(state)
    const reply = await state.authority.take(call({}))
    expect([reply.minute.taken, reply.day.taken]).toEqual([3 + 10 + 1, 5 + 10 + 1])
  })

  it('is written as the version before writes it', async () => {
    const path = join(temporaryFolder(), 'now.db')
    const state = await open(path)
    await write(state)
    await state.authority.take(call({ need: 3, want: 3 }))
    const ask = (sql: string): unknown[][] => {
      const database = new DatabaseSync(path, { readOnly: true })
      const found = database.prepare(sql).all()
      database.close()
      return found.map((row) => Object.values(row))
    }
    await state.close()
    expect(ask('SELECT name FROM sqlite_schema ORDER BY name').flat()).toEqual(Object.keys(COLUMNS))
    for (const [table, columns] of Object.entries(COLUMNS)) {
      const known = ask(`SELECT name, type FROM pragma_table_info('${table}')`)
      expect(known.map((column) => column.join(' ')).join(', ')).toBe(columns)
    }
    for (const [name, value] of Object.entries(MARK))
      expect(ask(`PRAGMA ${name}`)).toEqual([[value]])
    expect(ask('SELECT * FROM bans')).toEqual(ROWS.bans)
    const totals = 'day, client, plan, admitted, refused_minute, refused_day, refused_ban'
    expect(ask(`SELECT ${totals} FROM usage`)).toEqual(ROWS.usage)
    expect(ask(`SELECT ${totals} FROM usage_by_plan`)).toEqual(ROWS.usage_by_plan)
    const minute = Math.floor(START_MS / 60_000)
    expect(ask('SELECT * FROM quota')).toEqual([['acme', minute, 3, DAY, 3, 0]])
  })
})

describe('Redis', () => {
  const MINUTE = Math.floor(START_MS / 60_000)
  /** Two processes: the first was granted one token, and four for later; the second one. */
  const QUOTA = {
    minute: `${MINUTE}`,
    day: `${DAY}`,
    minuteTaken: '6',
    minuteUsed: '2',
    dayTaken: '6',
    dayUsed: '2',
    activeNow: '2',
    activeBefore: '0',
    learningUntil: `${START_MS + 1_000}`,
    exhausted: '0',
    announced: '5:0',
    'process:a': `2:0:${MINUTE}:5:1:5:1:0`,
    'process:b': `1:0:${MINUTE}:1:1:1:1:1`,
  }
  const SHARD = 'usage:{2100-07-01}'
  const USAGE = { acme: '12 2 0 4 free', 'acme by plan': ';free 5 1 0 2;pro 7 1 0 2' }

  function place() {
    const { url, prefix, cli } = sharedRedis()
    const redis = redisAt(url, { timeoutMs: 5_000 })
    const state = openRedisState(redis, prefix)
    const time = { ms: START_MS }
    return {
      state,
      time,
      authority: controlledRedisAuthority(redis, { time, prefix }),
      counters: createRedisCounters(controlledStore(redis, time), prefix),
      keys: () =>
        cli('KEYS', `${prefix}:*`)
          .split('\n')
          .map((key) => key.slice(prefix.length + 1)),
      put: (key: string, fields: object) =>
        cli('HSET', `${prefix}:${key}`, ...Object.entries(fields).flat().map(String)),
      get: (key: string) => redis.hgetall(`${prefix}:${key}`),
    }
  }
  const held = { index: MINUTE, used: 1, held: 5 }
  const later = call({ sequence: 3, minute: held, day: { ...held, index: DAY }, heard: 2 })

  it('of the version before is read', async () => {
    const { state, authority, counters, time, put } = place()
    await state.ready()
    put('q:{acme}', QUOTA)
    put('bans', BANS)
    put(`${SHARD}:0`, { boot: 2 })
    put(`${SHARD}:48`, USAGE)
    const stepMs = Math.floor(Date.now() / 60) * 60
    put('recentStrikes:acme-1', {
      oldest: 7,
      newest: 8,
      total: 5,
      7: `${stepMs - 60} 2`,
      8: `${stepMs} 3`,
    })
    put('notified:{sent}', { by: 'done' })
    put('notified:{claimed}', { by: '4b3a' })
    time.ms += 3_000
    const known = { index: MINUTE, taken: 6, used: 2 }
    const attend = () => counters.attend({ id: 'acme', limits: later.limits }, [])
    // The program that put all this has held up this process, on a busy machine for so long that its connection was given up.
    await until(() => attend().then(Boolean, () => false), 'the store')
    const { after } = await attend()
    expect(after).toMatchObject({ minute: known, day: { ...known, index: DAY } })
    expect(await authority.take(later)).toMatchObject({
      status: 'granted',
      notice: undefined,
      day: { taken: 7, used: 3, held: 6 },
    })
    await expectAllIn(state)
    // A batch that is sent again after its answer was late.
    for (const batch of batches) await state.usage.add(batch)
    await expectAllIn(state)
    const strikes = state.strikes(60_000)
    expect(await strikes.add('acme-1', 1, Date.now())).toMatchObject({ total: 6 })
    expect([await state.claims.take('sent'), await state.claims.take('claimed')]).toEqual([
      'done',
      'others',
    ])
  })

  it('is written as the version before writes it', async () => {
    const { state, authority, time, keys, get } = place()
    await state.ready()
    await write(state)
    await authority.take(call({}))
    time.ms += 2_000
    const one = { index: MINUTE, used: 1, held: 1 }
    await authority.take(
      call({ sequence: 2, minute: one, day: { ...one, index: DAY }, heard: 1, need: 0, want: 4 }),
    )
    await authority.take(call({ process: 'b' }))
    await state.authority.beat?.({ process: 'a', isLast: false })
    await state.strikes(60_000).add('acme-1', 3, Date.now())
    await state.claims.done('sent', Date.now() + 60_000)
    expect(keys().sort()).toEqual([
      'bans',
      'notified:{sent}',
      'processes',
      'q:{acme}',
      'recentStrikes:acme-1',
      `${SHARD}:0`,
      `${SHARD}:48`,
    ])
    expect(await get('q:{acme}')).toEqual(QUOTA)
    expect(await get('bans')).toEqual(BANS)
    expect(await get(`${SHARD}:0`)).toEqual({ boot: '2' })
    expect(await get(`${SHARD}:48`)).toEqual(USAGE)
    expect(await get('processes')).toEqual({ a: expect.stringMatching(/^\d{13}$/) })
    const step = expect.stringMatching(/^\d{13} 3$/)
    expect(await get('recentStrikes:acme-1')).toEqual({
      oldest: '1',
      newest: '1',
      total: '3',
      1: step,
    })
    expect(await get('notified:{sent}')).toEqual({ by: 'done' })
  })
})
