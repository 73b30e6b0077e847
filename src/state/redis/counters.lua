-- Reads a client's counters for operators, sets them back to 0, and notifies all processes; client.lua stands before it. `look`
-- and `reset` of client-counters.ts are this file's twins and explain the rules.
--
-- KEYS[1]  the client's hash
-- ARGV     1 minute: 1 sets its use back to 0  2 day: the same  3 channel of the notice to all processes; empty: none is sent
-- reply    now in ms, minute index, taken, used, day index, taken, used; then taken and used of both once more, as they are afterwards
local reply = { now, minute, minuteTaken, minuteUsed, day, dayTaken, dayUsed }

local isMinute, isDay = ARGV[1] == '1', ARGV[2] == '1'
if isSameDay and (isMinute or isDay) then
  if not isSameMinute then
    redis.call('HSET', KEYS[1], 'minute', minute, 'activeNow', 0, 'activeBefore', activeBefore)
  end
  local minuteOld, dayOld = minuteUsed, dayUsed
  local hash = redis.call('HGETALL', KEYS[1])
  for at = 1, #hash, 2 do
    local part = { string.match(hash[at + 1], '^(%d+):(%d):(%d+):(%d+):(%d+):(%d+):(%d+):?(%d*)$') }
    if part[1] and string.sub(hash[at], 1, 8) == 'process:' then
      local minuteHeld, usedInMinute = stored(part[4], 0), stored(part[5], 0)
      local dayHeld, usedInDay, spent = stored(part[6], 0), stored(part[7], 0), stored(part[8], 0)
      local isOfMinute = stored(part[3], -1) == minute
      if isMinute and isOfMinute then
        minuteHeld, usedInMinute, minuteOld = math.max(0, minuteHeld - usedInMinute) + spent, spent, minuteOld - spent
      end
      if isDay then
        dayHeld, usedInDay, dayOld = math.max(0, dayHeld - usedInDay) + spent, spent, dayOld - spent
      end
      if isDay or isOfMinute then
        redis.call('HSET', KEYS[1], hash[at], string.format('%s:%d:%s:%.0f:%.0f:%.0f:%.0f:%.0f',
          part[1], STALE, part[3], minuteHeld, usedInMinute, dayHeld, usedInDay, spent))
      end
    end
  end
  if isMinute then
    minuteTaken, minuteUsed, minuteUnstated = math.max(0, minuteTaken - minuteOld), math.max(0, minuteUsed - minuteOld), 0
    redis.call('HSET', KEYS[1], 'minuteReset', math.max(now, minuteReset + 1))
  end
  if isDay then
    dayTaken, dayUsed, dayUnstated = math.max(0, dayTaken - dayOld), math.max(0, dayUsed - dayOld), 0
    redis.call('HSET', KEYS[1], 'dayReset', math.max(now, dayReset + 1))
  end
  if fields[11] then
    redis.call('HSET', KEYS[1], 'unstated', string.format('%.0f:%.0f:%.0f', minute, minuteUnstated, dayUnstated))
  end
  redis.call('HSET', KEYS[1], 'exhausted', 0,
    'minuteTaken', minuteTaken, 'minuteUsed', minuteUsed, 'dayTaken', dayTaken, 'dayUsed', dayUsed)
end
-- A user who may not publish loses nothing but the notice.
if ARGV[3] ~= '' then redis.pcall('PUBLISH', ARGV[3], 'reset ' .. KEYS[1]) end
for _, number in ipairs({ minuteTaken, minuteUsed, dayTaken, dayUsed }) do table.insert(reply, number) end
return reply
