/** One suite for all places where the totals of days are kept, and what only one of them can do. */
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { createMemoryUsageStore } from '../../src/state/usage.ts'
import type { Batch, DayRow, UsageStore } from '../../src/state/usage.ts'
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
