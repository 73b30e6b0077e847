/** Who shares a Redis, processes and gateways: hashes with a field for each of them, which it writes anew every few seconds. */
import { BEAT_KEPT_MS } from '../memory/authority.ts'
import type { Authority } from '../quota.ts'
import { describeFault } from './faults.ts'
import type { RedisStore } from './redis.ts'

/** Several signs of life have to fail before a gateway counts as gone. */
const GATEWAY_KEPT_MS = 10_000
/** How many are returned, each of so many characters, as whoever can write to the store can add to them. */
const [GATEWAYS_AT_MOST, PROCESSES_AT_MOST, ENTRY_LENGTH] = [64, 10_000, 400]

/** KEYS: the hash. ARGV: id, for how many ms a silent one is kept, how many are returned, and what follows the time; absent: it is about to end. */
const signScript = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if not ARGV[4] then redis.call('HDEL', KEYS[1], ARGV[1])
else redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f', now) .. ARGV[4]) end
local beats, living = redis.call('HGETALL', KEYS[1]), {}
for at = 1, #beats, 2 do
  local isShort = #beats[at] + #beats[at + 1] <= ${ENTRY_LENGTH}
  local signedAt = isShort and tonumber(string.match(beats[at + 1], '^(%d+)$') or string.match(beats[at + 1], '^(%d+) '))
  if not signedAt or math.abs(now - signedAt) > tonumber(ARGV[2]) then redis.call('HDEL', KEYS[1], beats[at])
  elseif #living < 2 * ARGV[3] then
    living[#living + 1] = beats[at]
    living[#living + 1] = beats[at + 1]
  end
end
redis.call('EXPIRE', KEYS[1], 3600)
return living
`

/** Returns a function that signs for an id and reads what those that live have written, by id. */
function createSigns(redis: RedisStore, key: string, keptMs: number, most: number) {
  const sign = redis.script(signScript)
  return async <Sign>(id: string, text: string | undefined, read: (written: string) => Sign) => {
    const reply = await sign([key], [id, keptMs, most, ...(text === undefined ? [] : [text])])
    const signs = new Map<string, Sign>()
    for (let at = 0; at < reply.length; at += 2)
      signs.set(String(reply[at]), read(String(reply[at + 1])))
    return signs
  }
}

export function createRedisBeat(redis: RedisStore, prefix: string): NonNullable<Authority['beat']> {
  const sign = createSigns(redis, `${prefix}:processes`, BEAT_KEPT_MS, PROCESSES_AT_MOST)
  return ({ process, isLast }) => sign(process, isLast ? undefined : '', Number)
}

export function createRedisRegister(redis: RedisStore, prefix: string) {
  const sign = createSigns(redis, `${prefix}:gateways`, GATEWAY_KEPT_MS, GATEWAYS_AT_MOST)
  const noteIn = (written: string): string => written.slice(written.indexOf(' ') + 1)
  return (id: string, note?: string) =>
    sign(id, note === undefined ? undefined : ` ${note}`, noteIn).catch((error: Error) => {
      throw new Error(describeFault(error.cause ?? error).word, { cause: error })
    })
}
