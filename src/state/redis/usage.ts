/** Keeps the totals of days in Redis: several hashes a day with a field per client, which expire by themselves. */
import { DAY_MS } from '../../config/time.ts'
import type { RedisStore } from './redis.ts'
import { DAY_COUNTS, KEPT_DAYS, rowWith, type DayRow, type UsageStore } from '../usage.ts'

/** Hashes per day, each read whole in one step, so that no client is read twice; Redis stores those of 30,000 clients compactly. */
const SHARDS = 64

/** Suffix of a second field for a client that had several plans on the day; no client id has a space. */
const BY_PLAN = ' by plan'

/** Returns a pattern of DAY_COUNTS, with a space between them. */
const list = (number: string): string => DAY_COUNTS.map(() => number).join(' ')
const ofClient = new RegExp(`^(${list('-?\\d+')}) (.*)$`, 's')
const ofPlan = new RegExp(`;([^ ]+) (${list('-?\\d+')})`, 'g')

/**
 * KEYS: the latest batch of each process, so that one sent again adds nothing; then the day's shards. A client's field holds
 * DAY_COUNTS and its first plan of the day. From its second plan on, another field holds those of each, such as
 * ';free 5 0 0 0;pro 7 0 0 0'.
 */
const addScript = `
local function plus(one, other)
  local sum, numbers = {}, string.gmatch(one, '%S+')
  for number in string.gmatch(other, '%S+') do sum[#sum + 1] = string.format('%.0f', (tonumber(numbers() or 0) or 0) + number) end
  return table.concat(sum, ' ')
end
local function plusPlan(plans, plan, counts)
  local name = ';' .. plan .. ' '
  local _, found = string.find(plans, name, 1, true)
  local at = found or #plans
  local last = (string.find(plans, ';', at + 1, true) or #plans + 1) - 1
  local sum = plus(string.sub(plans, at + 1, last), counts)
  return string.sub(plans, 1, at) .. (found and '' or name) .. sum .. string.sub(plans, last + 1)
end
if tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or 0) >= tonumber(ARGV[2]) then return {0} end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
local touched = { [KEYS[1]] = true }
for at = 4, #ARGV, 4 do
  local key, client, plan, counts = KEYS[1 + ARGV[at]], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  local known = redis.call('HMGET', key, client, client .. '${BY_PLAN}')
  local sum, first = string.match(known[1] or '', '^(${list('%-?%d+')}) (.*)$')
  if first and (known[2] or first ~= plan) then
    local plans = known[2] or plusPlan('', first, sum)
    redis.call('HSET', key, client .. '${BY_PLAN}', plusPlan(plans, plan, counts))
  end
  redis.call('HSET', key, client, plus(sum or '', counts) .. ' ' .. (first or plan))
  touched[key] = true
end
for key in pairs(touched) do redis.call('PEXPIREAT', key, ARGV[3]) end
return {1}
`
const findScript = "return redis.call('HMGET', KEYS[1], ARGV[1], ARGV[2])"

export function createRedisUsageStore(redis: RedisStore, prefix: string): UsageStore {
  const add = redis.script(addScript)
  const findFields = redis.script(findScript)
  return {
    scope: 'store',
    add: async ({ process, sequence, day, rows }) => {
      const shards = Array.from({ length: SHARDS }, (_, at) => shardKey(prefix, day, at + 1))
      const args: (string | number)[] = [process, sequence, (day + KEPT_DAYS + 1) * DAY_MS]
      for (const row of rows) {
        const counts = DAY_COUNTS.map((name) => row[name])
        args.push(shardOf(row.client), row.client, row.plan, counts.join(' '))
      }
      await add([shardKey(prefix, day, 0), ...shards], args)
    },
    async *day(day) {
      for (let shard = 1; shard <= SHARDS; shard++) {
        const fields = await redis.hgetall(shardKey(prefix, day, shard))
        yield Object.entries(fields).flatMap(([client, text]) =>
          parse(client, text, fields[client + BY_PLAN]),
        )
      }
    },
    client: async (client, from, to) => {
      const days = Array.from({ length: to - from + 1 }, (_, at) => from + at)
      const found = days.map(async (day) => {
        const key = shardKey(prefix, day, shardOf(client))
        const [text, plans] = await findFields([key], [client, client + BY_PLAN])
        return parse(client, String(text), String(plans ?? '')).map((row) => [day, row] as const)
      })
      return (await Promise.all(found)).flat()
    },
  }
}

/** The braces put all keys of a day in one slot of a cluster. Shard 0 holds the latest batch of each process. */
const shardKey = (prefix: string, day: number, shard: number): string =>
  `${prefix}:usage:{${new Date(day * DAY_MS).toISOString().slice(0, 10)}}:${shard}`

/** FNV-1a. */
function shardOf(client: string): number {
  let hash = 0x811c9dc5
  for (let at = 0; at < client.length; at++)
    hash = Math.imul(hash ^ client.charCodeAt(at), 0x01000193)
  return 1 + ((hash >>> 0) % SHARDS)
}

/** Returns one row for each plan; none where the field is not a client's. */
function parse(client: string, text: string, plans = ''): readonly DayRow[] {
  const [, counts, first] = ofClient.exec(text) ?? []
  if (counts === undefined) return []
  const all = plans === '' ? `;${first} ${counts}` : plans
  return Array.from(all.matchAll(ofPlan), ([, plan = '', list = '']) => {
    const numbers = list.split(' ').map(Number)
    return rowWith({ client, plan }, (name) => numbers[DAY_COUNTS.indexOf(name)] ?? 0)
  })
}
