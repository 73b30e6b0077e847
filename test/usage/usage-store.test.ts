/** One suite for all places where the totals of days are kept, and what only one of them can do. */
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { connectRedis } from '../../src/redis/redis.ts'
import type { RedisStore } from '../../src/redis/store.ts'
import { openSqliteFile } from '../../src/sqlite/file.ts'
import type { DayRow } from '../../src/usage/day-totals.ts'
import { createMemoryUsageStore, type Batch, type UsageStore } from '../../src/usage/usage-store.ts'
import { createRedisUsageStore } from '../../src/usage/usage-store-redis.ts'
import { createSqliteUsageStore } from '../../src/usage/usage-store-sqlite.ts'
import { until } from '../support/controlled-authority.ts'
import { temporaryFolder } from '../support/processes.ts'
import { serversAt } from '../support/redis-servers.ts'
import { startRedisServer, type RedisServer } from '../support/redis-server.ts'

let server: RedisServer
let redis: RedisStore
beforeAll(async () => {
  server = await startRedisServer()
  redis = connectRedis({ servers: serversAt(`redis://127.0.0.1:${server.port}`), timeoutMs: 5_000 })
  await until(() => redis.available)
})
afterAll(async () => {
  await redis.close()
  await server.stop()
})

const TODAY = Math.floor(Date.now() / 86_400_000)
const row = (client: string, admitted: number, more: Partial<DayRow> = {}): DayRow => ({
  client,
  plan: 'free',
  admitted,
  refusedMinute: 0,
  refusedDay: 0,
  refusedBan: 0,
  ...more,
})
let sequence = 0
const batch = (day: number, ...rows: DayRow[]): Batch => ofRows(day, rows)
const ofRows = (day: number, rows: DayRow[]): Batch => ({
  process: 'first',
  sequence: ++sequence,
  day,
  rows,
})
async function dayOf(store: UsageStore, day: number): Promise<DayRow[]> {
  let all: DayRow[] = []
  for await (const rows of store.day(day)) all = all.concat(rows)
  return all.sort((one, other) => (one.client < other.client ? -1 : 1))
}

let prefixes = 0
const kinds: Record<string, () => UsageStore> = {
  'in memory': createMemoryUsageStore,
  'in store.file': () => createSqliteUsageStore(join(temporaryFolder(), 'usage.db'), () => {}),
  'in Redis': () => createRedisUsageStore(redis, `tollgate-${++prefixes}`),
}

describe.each(Object.entries(kinds))('totals of days %s', (name, create) => {
  it('are sums by client, with the latest plan, which is not that of a request handed back', async () => {
    const store = create()
    await store.add(batch(TODAY, row('acme', 3), row('bolt, "inc"', 1, { refusedBan: 4 })))
    await store.add(batch(TODAY, row('acme', -1, { plan: 'pro', refusedMinute: 2, refusedDay: 5 })))
    await store.add(batch(TODAY, row('acme', -1)))
    await store.add(batch(TODAY - 1, row('acme', 2 ** 40)))
    expect(await dayOf(store, TODAY)).toEqual([
      row('acme', 1, { plan: 'pro', refusedMinute: 2, refusedDay: 5 }),
      row('bolt, "inc"', 1, { refusedBan: 4 }),
    ])
    expect(await dayOf(store, TODAY - 1)).toEqual([row('acme', 2 ** 40)])
    expect(await dayOf(store, TODAY - 2)).toEqual([])
    const days = await store.client('acme', TODAY - 399, TODAY)
    expect(days.map(([day, { admitted }]) => [day - TODAY, admitted])).toEqual([
      [-1, 2 ** 40],
      [0, 1],
    ])
    expect(await store.client('nobody', TODAY - 1, TODAY)).toEqual([])
    await store.close()
  })

  // What is in memory always answers.
  const once = name === 'in memory' ? undefined : it
  once?.('count a batch once that is sent again', async () => {
    const store = create()
    const sent = batch(TODAY, row('acme', 3), row('bolt', 1))
    await Promise.all([store.add(sent), store.add(sent)])
    await store.add(batch(TODAY, row('acme', 10)))
    if (name === 'in Redis') {
      // A first copy that was stuck on the way, and what another gateway counts.
      await store.add(sent)
      await store.add({ ...sent, process: 'second' })
    }
    const twice = name === 'in Redis' ? 2 : 1
    expect(await dayOf(store, TODAY)).toEqual([row('acme', 10 + 3 * twice), row('bolt', twice)])
    await store.close()
  })

  it('are read in pieces, each client once, while they change', async () => {
    const store = create()
    const names = Array.from({ length: 2_500 }, (_, at) => `client-${at}`)
    for (let at = 0; at < names.length; at += 500)
      await store.add(batch(TODAY, ...names.slice(at, at + 500).map((client) => row(client, 1))))
    const seen: string[] = []
    for await (const rows of store.day(TODAY)) {
      seen.push(...rows.map(({ client }) => client))
      await store.add(batch(TODAY, row('client-7', 1), row(`late-${seen.length}`, 1)))
    }
    expect(new Set(seen).size).toBe(seen.length)
    expect(seen.filter((client) => client.startsWith('client-')).sort()).toEqual(names.sort())
    await store.close()
  })

  it('are those of 400 days', async () => {
    const store = create()
    for (const ago of [401, 400, 399, 1])
      await store.add(batch(TODAY - ago, row(`ago-${ago}`, 1), row('acme', ago)))
    await store.add(batch(TODAY, row('acme', 1_000)))
    const kept = (await store.client('acme', TODAY - 399, TODAY)).map(([day]) => TODAY - day)
    expect(kept).toEqual([399, 1, 0])
    if (name !== 'in Redis') expect(await dayOf(store, TODAY - 400)).toEqual([])
    else {
      const key = (ago: number): string =>
        server.cli('KEYS', `tollgate-${prefixes}:usage:{${iso(ago)}}:*`).split('\n')[0] ?? ''
      const endsInDays = (ago: number): number =>
        Number(server.cli('PEXPIRETIME', key(ago))) / 86_400_000 - TODAY
      expect([0, 1, 399].map(endsInDays)).toEqual([401, 400, 2])
      expect(key(401)).toBe('')
    }
    await store.close()
  })
})

const iso = (ago: number): string => new Date((TODAY - ago) * 86_400_000).toISOString().slice(0, 10)

describe('totals in memory', () => {
  it('are those of 200,000 clients and days: the oldest day goes first', async () => {
    const store = createMemoryUsageStore()
    const many = (start: number, count: number): DayRow[] =>
      Array.from({ length: count }, (_, at) => row(`client-${start + at}`, 1))
    await store.add(ofRows(TODAY - 2, many(0, 100_000)))
    await store.add(ofRows(TODAY - 1, many(0, 50_000)))
    await store.add(ofRows(TODAY, many(0, 60_000)))
    const sizes = async () =>
      Promise.all([2, 1, 0].map(async (ago) => (await dayOf(store, TODAY - ago)).length))
    expect(await sizes()).toEqual([0, 50_000, 60_000])
    await store.add(ofRows(TODAY, many(60_000, 150_000)))
    expect(await sizes()).toEqual([0, 0, 200_000])
  })
})

describe('totals in store.file', () => {
  it('begin in a file of a release before, which keeps the rest', async () => {
    const file = join(temporaryFolder(), 'old.db')
    const old = new DatabaseSync(file)
    old.exec(`
      CREATE TABLE bans (key_id TEXT PRIMARY KEY, until_ms INTEGER NOT NULL, count INTEGER NOT NULL, started_ms INTEGER NOT NULL) STRICT, WITHOUT ROWID;
      CREATE TABLE quota (client TEXT PRIMARY KEY, minute_index INTEGER NOT NULL, minute_taken INTEGER NOT NULL, day_index INTEGER NOT NULL, day_taken INTEGER NOT NULL, ahead INTEGER NOT NULL DEFAULT 0) STRICT, WITHOUT ROWID;
      INSERT INTO bans VALUES ('acme-1', 9e15, 1, 0);
      INSERT INTO quota VALUES ('acme', 1, 2, 3, 4, 0);
      PRAGMA application_id = 1953459308; PRAGMA user_version = 1;`)
    old.close()
    const damaged: unknown[] = []
    const first = createSqliteUsageStore(file, (event) => damaged.push(event))
    await first.add(batch(TODAY, row('acme', 3)))
    await first.close()
    const again = createSqliteUsageStore(file, (event) => damaged.push(event))
    expect(await dayOf(again, TODAY)).toEqual([row('acme', 3)])
    const shared = openSqliteFile(file, (event) => damaged.push(event))
    expect(await shared.read('SELECT key_id FROM bans')).toEqual([{ key_id: 'acme-1' }])
    expect(await shared.read('SELECT day_taken FROM quota')).toEqual([{ day_taken: 4 }])
    await Promise.all([again.close(), shared.close()])
    expect(damaged).toEqual([])
  })
})
