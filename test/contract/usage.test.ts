/** One suite for all places where the totals of days are kept, and what only one of them can do. */
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe, expect, it } from 'vitest'
import type { DayRow } from '../../src/state/day-totals.ts'
import { createMemoryUsageStore, type Batch, type UsageStore } from '../../src/state/usage.ts'
import { createRedisUsageStore } from '../../src/state/redis/usage.ts'
import { openSqliteFile } from '../../src/state/sqlite/file.ts'
import { createSqliteUsageStore } from '../../src/state/sqlite/usage.ts'
import { gatewayEnds } from '../support/ending.ts'
import { temporaryFolder } from '../support/processes.ts'
import { sharedRedis } from '../support/redis-server.ts'
import { redisAt } from '../support/redis-servers.ts'

const server = sharedRedis()
const redis = redisAt(server.url, { timeoutMs: 5_000 })
await redis.ready()

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
  const keyOf = ({ client, plan }: DayRow): string => `${client} ${plan}`
  return all.sort((one, other) => (keyOf(one) < keyOf(other) ? -1 : 1))
}

function openFile(path: string) {
  const file = openSqliteFile(path, () => {})
  gatewayEnds(() => file.close())
  return file
}

let prefixes = 0
const kinds: Record<string, () => UsageStore> = {
  'in memory': createMemoryUsageStore,
  'in store.file': () => createSqliteUsageStore(openFile(join(temporaryFolder(), 'usage.db'))),
  'in Redis': () => createRedisUsageStore(redis, `${server.prefix}-${++prefixes}`),
}

describe.each(Object.entries(kinds))('totals of days %s', (name, create) => {
  it('are sums by client and plan', async () => {
    const store = create()
    await store.add(batch(TODAY, row('acme', 5), row('bolt, "inc"', 1, { refusedBan: 4 })))
    await store.add(batch(TODAY - 1, row('acme', 2 ** 40)))
    await store.add(batch(TODAY, row('acme', -1)))
    const pro = (admitted: number) => row('acme', admitted, { plan: 'pro', refusedMinute: 2 })
    await store.add(batch(TODAY, pro(7), row('acme', -2), row('acme', 1, { plan: 'pro.old-2' })))
    await store.add(batch(TODAY, pro(-1), row('acme', 4)))
    const acme = [
      row('acme', 6),
      row('acme', 6, { plan: 'pro', refusedMinute: 4 }),
      row('acme', 1, { plan: 'pro.old-2' }),
    ]
    expect(await dayOf(store, TODAY)).toEqual([...acme, row('bolt, "inc"', 1, { refusedBan: 4 })])
    expect(await dayOf(store, TODAY - 1)).toEqual([row('acme', 2 ** 40)])
    expect(await dayOf(store, TODAY - 2)).toEqual([])
    const days = await store.client('acme', TODAY - 399, TODAY)
    expect(days[0]).toEqual([TODAY - 1, row('acme', 2 ** 40)])
    expect(days.slice(1)).toEqual(acme.map((one) => [TODAY, one]))
    expect(await store.client('nobody', TODAY - 1, TODAY)).toEqual([])
  })

  // What is in memory always answers.
  const once = name === 'in memory' ? undefined : it
  once?.('count a batch once that is sent again', async () => {
    const store = create()
    const pro = { plan: 'pro' }
    const sent = batch(TODAY, row('acme', 3), row('bolt', 1), row('acme', 2, pro))
    await Promise.all([store.add(sent), store.add(sent)])
    await store.add(batch(TODAY, row('acme', 10)))
    if (name === 'in Redis') {
      // A first copy that was stuck on the way, and what another gateway counts.
      await store.add(sent)
      await store.add({ ...sent, process: 'second' })
    }
    const twice = name === 'in Redis' ? 2 : 1
    expect(await dayOf(store, TODAY)).toEqual([
      row('acme', 10 + 3 * twice),
      row('acme', 2 * twice, pro),
      row('bolt', twice),
    ])
  })

  it('are read in pieces, each client and plan once, while they change', async () => {
    const store = create()
    const names = Array.from({ length: 2_500 }, (_, at) => `client-${at}`)
    for (let at = 0; at < names.length; at += 500)
      await store.add(batch(TODAY, ...names.slice(at, at + 500).map((client) => row(client, 1))))
    // One in the middle of a piece, and the last of all.
    const moved = ['client-1234', 'client-999']
    await store.add(batch(TODAY, ...moved.map((client) => row(client, 1, { plan: 'pro' }))))
    const seen: string[] = []
    for await (const rows of store.day(TODAY)) {
      seen.push(...rows.map(({ client, plan }) => `${client} ${plan}`))
      await store.add(batch(TODAY, row('client-7', 1), row(`late-${seen.length}`, 1)))
    }
    expect(new Set(seen).size).toBe(seen.length)
    const wanted = [...names.map((client) => `${client} free`), ...moved.map((one) => `${one} pro`)]
    expect(seen.filter((client) => client.startsWith('client-')).sort()).toEqual(wanted.sort())
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
        server.cli('KEYS', `${server.prefix}-${prefixes}:usage:{${iso(ago)}}:*`).split('\n')[0] ??
        ''
      const endsInDays = (ago: number): number =>
        Number(server.cli('PEXPIRETIME', key(ago))) / 86_400_000 - TODAY
      expect([0, 1, 399].map(endsInDays)).toEqual([401, 400, 2])
      expect(key(401)).toBe('')
    }
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
    const sizeOf = async (day: number): Promise<number> => {
      let size = 0
      for await (const rows of store.day(day)) size += rows.length
      return size
    }
    const sizes = () => Promise.all([2, 1, 0].map((ago) => sizeOf(TODAY - ago)))
    expect(await sizes()).toEqual([0, 50_000, 60_000])
    await store.add(ofRows(TODAY, many(60_000, 150_000)))
    expect(await sizes()).toEqual([0, 0, 200_000])
  })
})

describe('totals in store.file', () => {
  it('stay readable and exact for the release before, and for this one after it', async () => {
    const file = join(temporaryFolder(), 'shared.db')
    const before = <Result>(act: (database: DatabaseSync) => Result): Result => {
      const database = new DatabaseSync(file)
      const result = act(database)
      database.close()
      return result
    }
    const counts = 'admitted, refused_minute, refused_day, refused_ban'
    const addBefore = (plan: string, admitted: number, at: number) =>
      before((database) =>
        database.exec(`INSERT INTO usage (day, client, plan, ${counts}, batch)
          VALUES (${TODAY}, 'acme', '${plan}', ${admitted}, 0, 0, 0, ${at})
          ON CONFLICT (day, client) DO UPDATE SET plan = excluded.plan, admitted = admitted + excluded.admitted, batch = excluded.batch`),
      )
    const pro = { plan: 'pro' }
    before((database) =>
      database.exec(`
        CREATE TABLE bans (key_id TEXT PRIMARY KEY, until_ms INTEGER NOT NULL, count INTEGER NOT NULL, started_ms INTEGER NOT NULL,
          epoch_ms INTEGER, made_by TEXT, reason TEXT) STRICT, WITHOUT ROWID;
        CREATE TABLE usage (day INTEGER NOT NULL, client TEXT NOT NULL, plan TEXT NOT NULL, admitted INTEGER NOT NULL, refused_minute INTEGER NOT NULL,
          refused_day INTEGER NOT NULL, refused_ban INTEGER NOT NULL, batch INTEGER NOT NULL, PRIMARY KEY (day, client)) STRICT, WITHOUT ROWID;
        PRAGMA application_id = 1953459308; PRAGMA user_version = 1;`),
    )
    addBefore('free', 5, 1)
    const written = openFile(file)
    const first = createSqliteUsageStore(written)
    await first.add(batch(TODAY, row('acme', 7, pro)))
    expect(await dayOf(first, TODAY)).toEqual([row('acme', 5), row('acme', 7, pro)])
    await written.close()
    const select = `SELECT plan, ${counts}, user_version AS layout FROM usage, pragma_user_version`
    expect(before((database) => database.prepare(select).all())).toEqual([
      { plan: 'free', admitted: 12, refused_minute: 0, refused_day: 0, refused_ban: 0, layout: 1 },
    ])
    addBefore('free', 2, 2)
    const again = createSqliteUsageStore(openFile(file))
    await again.add(batch(TODAY, row('acme', 1, pro)))
    expect(await dayOf(again, TODAY)).toEqual([row('acme', 7), row('acme', 8, pro)])
  })
})

/** The script of the release before, but for what removes old days. */
const scriptBefore = `
if tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or 0) >= tonumber(ARGV[2]) then return {0} end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
for at = 4, #ARGV, 7 do
  local key, client = KEYS[1 + ARGV[at]], ARGV[at + 1]
  local known = redis.call('HGET', key, client) or ''
  local a, m, d, b, plan = string.match(known, '^(-?%d+) (-?%d+) (-?%d+) (-?%d+) (.*)$')
  local isRefund = tonumber(ARGV[at + 3]) < 0 and ARGV[at + 4] + ARGV[at + 5] + ARGV[at + 6] == 0
  if not (plan and isRefund) then plan = ARGV[at + 2] end
  a, m, d, b = (a or 0) + ARGV[at + 3], (m or 0) + ARGV[at + 4], (d or 0) + ARGV[at + 5], (b or 0) + ARGV[at + 6]
  redis.call('HSET', key, client, string.format('%.0f %.0f %.0f %.0f %s', a, m, d, b, plan))
end
return {1}
`

describe('totals in Redis', () => {
  it('are exact beside a gateway of the release before, which sees them as it always did', async () => {
    const prefix = `${server.prefix}-${++prefixes}`
    const store = createRedisUsageStore(redis, prefix)
    await store.add(batch(TODAY, row('acme', 3)))
    const pattern = `${prefix}:usage:{${iso(0)}}:*`
    const shard = server
      .cli('KEYS', pattern)
      .split('\n')
      .find((key) => server.cli('HEXISTS', key, 'acme') === '1')
    if (shard === undefined) throw new Error('no shard')
    const run = redis.script(scriptBefore)
    const addBefore = (plan: string, admitted: number) =>
      run([`${shard}:batches`, shard], ['older', ++sequence, 0, 1, 'acme', plan, admitted, 0, 0, 0])
    const acme = (free: number, pro: number) => [
      row('acme', free),
      row('acme', pro, { plan: 'pro' }),
    ]
    /** What that release shows: it passes over fields that do not begin with four numbers. */
    const seenBefore = async () =>
      Object.entries(await redis.hgetall(shard)).filter(([, text]) => /^(-?\d+ ){4}/.test(text))

    await addBefore('free', 2)
    expect(await dayOf(store, TODAY)).toEqual([row('acme', 5)])
    await store.add(batch(TODAY, row('acme', 7, { plan: 'pro' })))
    expect(await dayOf(store, TODAY)).toEqual(acme(5, 7))
    expect(await seenBefore()).toEqual([['acme', '12 0 0 0 free']])
    await addBefore('pro', 10)
    expect(await dayOf(store, TODAY)).toEqual(acme(5, 17))
    await store.add(batch(TODAY, row('acme', 100)))
    expect(await dayOf(store, TODAY)).toEqual(acme(105, 17))
    await addBefore('free', 1_000)
    await store.add(batch(TODAY, row('acme', -1), row('acme', 1, { plan: 'pro' })))
    expect(await seenBefore()).toEqual([['acme', '1122 0 0 0 free']])
    expect((await dayOf(store, TODAY)).reduce((sum, { admitted }) => sum + admitted, 0)).toBe(1_122)
  })
})
