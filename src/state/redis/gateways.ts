/** Which gateways share a Redis: a hash with a field for each of them, which it writes anew every few seconds. */
import type { OwnState } from '../contract.ts'
import type { RedisStore } from './redis.ts'

/** Several signs of life have to fail before a gateway counts as gone. */
const KEPT_MS = 10_000
/** How many are returned, each of so many characters: whoever can write to the store has others ask no more. */
const [GATEWAYS_AT_MOST, ENTRY_LENGTH] = [64, 400]

/** KEYS: the hash. ARGV: id and note of the gateway; no note: it is about to end. */
const signScript = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if not ARGV[2] then redis.call('HDEL', KEYS[1], ARGV[1])
else redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f %s', now, ARGV[2])) end
local all, living = redis.call('HGETALL', KEYS[1]), {}
for at = 1, #all, 2 do
  -- A longer one would take long to search.
  local text = #all[at] + #all[at + 1] <= ${ENTRY_LENGTH} and all[at + 1] or ''
  local signedAt, note = string.match(text, '^(%d+) (.*)$')
  if not signedAt or math.abs(now - signedAt) > ${KEPT_MS} then redis.call('HDEL', KEYS[1], all[at])
  elseif #living < ${2 * GATEWAYS_AT_MOST} then
    living[#living + 1] = all[at]
    living[#living + 1] = note
  end
end
redis.call('EXPIRE', KEYS[1], 3600)
return living
`

export function createRedisRegister(
  redis: RedisStore,
  prefix: string,
): NonNullable<OwnState['register']> {
  const sign = redis.script(signScript)
  return async (id, note) => {
    const reply = await sign([`${prefix}:gateways`], note === undefined ? [id] : [id, note])
    const notes = new Map<string, string>()
    for (let at = 0; at < reply.length; at += 2) notes.set(String(reply[at]), String(reply[at + 1]))
    return notes
  }
}
