/** Keeps the totals of days in Redis: of each day some hashes with a field per client, which end by themselves. */
import { DAY_MS } from '../rules/time.ts'
import type { RedisStore } from '../redis/store.ts'
import type { DayRow } from './day-totals.ts'
import { KEPT_DAYS, type UsageStore } from './usage-store.ts'

/** Each is read whole in one step, so that no client is met twice; of 30,000 clients a day they are still stored compactly. */
const SHARDS = 64
/** Calls on the way at once, for one question of an operator. */
const ASKED_AT_ONCE = 50

/**
 * KEYS: the latest batch of each process, then the shards of the day. A field holds what was admitted and refused by minute, day
 * and ban, and the plan. In one step with what says that it was done: a batch that is sent again, as its answer was late, adds nothing.
 */
const addScript = `
if tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or 0) >= tonumber(ARGV[2]) then return {0} end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
local touched = { [KEYS[1]] = true }
for at = 4, #ARGV, 7 do
  local key, client = KEYS[1 + ARGV[at]], ARGV[at + 1]
  local known = redis.call('HGET', key, client) or ''
  local a, m, d, b, plan = string.match(known, '^(-?%d+) (-?%d+) (-?%d+) (-?%d+) (.*)$')
  local isRefund = tonumber(ARGV[at + 3]) < 0 and ARGV[at + 4] + ARGV[at + 5] + ARGV[at + 6] == 0
  if not (plan and isRefund) then plan = ARGV[at + 2] end
  a, m, d, b = (a or 0) + ARGV[at + 3], (m or 0) + ARGV[at + 4], (d or 0) + ARGV[at + 5], (b or 0) + ARGV[at + 6]
  redis.call('HSET', key, client, string.format('%.0f %.0f %.0f %.0f %s', a, m, d, b, plan))
  touched[key] = true
end
for key in pairs(touched) do redis.call('PEXPIREAT', key, ARGV[3]) end
return {1}
`
const findScript = "return { redis.call('HGET', KEYS[1], ARGV[1]) }"

/** prefix: of all keys. The Redis store stays open: it has other users. */
export function createRedisUsageStore(redis: RedisStore, prefix: string): UsageStore {
  const adding = redis.script({ name: 'tollgateUse', text: addScript, keyCount: 1 + SHARDS })
  const finding = redis.script({ name: 'tollgateUsed', text: findScript, keyCount: 1 })
  const find = async (client: string, day: number): Promise<DayRow | undefined> => {
    const [text] = await finding.run({
      keys: [shardKey(prefix, day, shardOf(client))],
      args: [client],
    })
    return typeof text === 'string' ? parse(client, text) : undefined
  }
  return {
    scope: 'store',
    add: async ({ process, sequence, day, rows }) => {
      const shards = Array.from({ length: SHARDS }, (_, at) => shardKey(prefix, day, at + 1))
      const args: (string | number)[] = [process, sequence, (day + KEPT_DAYS + 1) * DAY_MS]
      for (const { client, plan, admitted, refusedMinute, refusedDay, refusedBan } of rows)
        args.push(shardOf(client), client, plan, admitted, refusedMinute, refusedDay, refusedBan)
      await adding.run({ keys: [shardKey(prefix, day, 0), ...shards], args })
    },
    async *day(day) {
      for (let shard = 1; shard <= SHARDS; shard++) {
        const fields = await redis.hgetall(shardKey(prefix, day, shard))
        yield Object.entries(fields).flatMap(([client, text]) => parse(client, text) ?? [])
      }
    },
    client: async (client, from, to) => {
      const days: [number, DayRow][] = []
      for (let first = from; first <= to; first += ASKED_AT_ONCE) {
        const asked = Math.min(ASKED_AT_ONCE, to - first + 1)
        const rows = await Promise.all(
          Array.from({ length: asked }, (_, at) => find(client, first + at)),
        )
        for (const [at, row] of rows.entries()) if (row !== undefined) days.push([first + at, row])
      }
      return days
    },
    close: async () => undefined,
  }
}

/** The braces put all of a day in one slot of a cluster. Shard 0: what was added last, of each process. */
const shardKey = (prefix: string, day: number, shard: number): string =>
  `${prefix}:usage:{${new Date(day * DAY_MS).toISOString().slice(0, 10)}}:${shard}`

/** FNV-1a. */
function shardOf(client: string): number {
  let hash = 0x811c9dc5
  for (let at = 0; at < client.length; at++)
    hash = Math.imul(hash ^ client.charCodeAt(at), 0x01000193)
  return 1 + ((hash >>> 0) % SHARDS)
}

/** undefined: somebody else wrote it. */
function parse(client: string, text: string): DayRow | undefined {
  const [, admitted, refusedMinute, refusedDay, refusedBan, plan] =
    /^(-?\d+) (-?\d+) (-?\d+) (-?\d+) (.*)$/s.exec(text) ?? []
  if (plan === undefined) return undefined
  return {
    client,
    plan,
    admitted: Number(admitted),
    refusedMinute: Number(refusedMinute),
    refusedDay: Number(refusedDay),
    refusedBan: Number(refusedBan),
  }
}
