/** Keeps bans in one Redis hash, and publishes new ones to all processes on a channel of the same name. */
import { formatBan, parseBan, type BanRecord, type BanStore } from '../bans.ts'
import type { RedisStore } from './redis.ts'
import type { StoreClock } from '../store-clock.ts'

/**
 * Saves in one step, so that of two bans of a key at the same moment the one that mergeBans would choose stays.
 * A stored value counts only if parseBan would read it as a ban too; anything else is overwritten.
 */
const saveScript = `
local known = redis.call('HGET', KEYS[1], ARGV[1])
if known then
  local read, ban = pcall(cjson.decode, known)
  local ends = read and type(ban) == 'table' and ban['untilMs']
  local count = ends and ban['count']
  if type(ends) == 'number' and type(count) == 'number' and ends <= 9007199254740991 then
    local epoch = type(ban['epochMs']) == 'number' and ban['epochMs'] or 0
    local mine, myEpoch = tonumber(ARGV[3]), tonumber(ARGV[7])
    if epoch > myEpoch then return 0 end
    if epoch == myEpoch and (ends > mine or (ends == mine and count >= tonumber(ARGV[4]))) then return 0 end
  end
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
-- A user who may not publish loses nothing but the notice: the others read the hash again every now and then.
redis.pcall('PUBLISH', ARGV[5], ARGV[6])
return 1
`

/** Reads all bans, or that of one key, and the time, by which a process that has asked nothing before knows which of them run. */
const loadScript = `
local reply = ARGV[1] and { ARGV[1], redis.call('HGET', KEYS[1], ARGV[1]) } or redis.call('HGETALL', KEYS[1])
local time = redis.call('TIME')
reply[#reply + 1] = 1000 * tonumber(time[1]) + math.floor(tonumber(time[2]) / 1000)
return reply
`

const forgetScript = `
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
return redis.call('HDEL', KEYS[1], ARGV[1])
`

/** clock: is set by the server's time. */
export function createRedisBanStore(
  redis: RedisStore,
  prefix: string,
  clock: StoreClock,
): BanStore {
  const key = `${prefix}:bans`
  const save = redis.script(saveScript)
  const load = redis.script(loadScript)
  const forget = redis.script(forgetScript)
  return {
    mayLose: true,
    watch: ({ banned, stale }) => {
      const message = (text: string): void => {
        const ban = parseBan(text)
        const { keyId } = ban ? (JSON.parse(text) as { keyId?: unknown }) : {}
        if (ban && typeof keyId === 'string') banned(keyId, ban)
      }
      redis.subscribe(key, { message, subscribed: stale })
      redis.onRecovered(stale)
    },
    load: async (keyId) => {
      const bans = new Map<string, BanRecord>()
      const askedMs = performance.now()
      const reply = await load([key], keyId === undefined ? [] : [keyId])
      clock.set(Number(reply.at(-1)), performance.now() - askedMs)
      for (let at = 0; at + 1 < reply.length; at += 2) {
        const ban = parseBan(String(reply[at + 1]))
        if (ban) bans.set(String(reply[at]), ban)
      }
      return bans
    },
    save: async (keyId, ban) => {
      const message = JSON.stringify({ keyId, ...ban })
      const { untilMs, count, epochMs = 0 } = ban
      await save([key], [keyId, formatBan(ban), untilMs, count, key, message, epochMs])
    },
    forget: async (keyId, ban) => {
      await forget([key], [keyId, formatBan(ban)])
    },
  }
}
