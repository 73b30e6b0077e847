-- A client's counters for operators, after client.lua: `look` and `reset` of counters.ts are its twins and explain the rules.
--
-- KEYS[1]  the client's hash
-- ARGV     1 channel of the notice to all processes; empty: none is sent; then for each window: 1 sets its use back to 0
-- reply    now in ms; index, taken and used of each window; then the same once more, as they are afterwards
local reply = { now, each(windowIndex, windowTaken, windowUsed) }
local isReset = false
--each
local isWindow, windowOld = ARGV[1 + windowNumber] == '1', windowUsed
isReset = isReset or isWindow
--end
if isSameDay and isReset then
  if not isSameMinute then redis.call('HSET', KEYS[1], 'activeNow', 0, 'activeBefore', activeBefore) end
  local hash = redis.call('HGETALL', KEYS[1])
  for at = 1, #hash, 2 do
    local part = { string.match(hash[at + 1], RECORD) }
    if part[1] and string.sub(hash[at], 1, 8) == 'process:' then
      local ofMinute, spent, isOld = stored(part[3], -1), stored(part[#part], 0), false
      --each
      local windowHeld, usedInWindow = stored(part[windowPart], 0), stored(part[windowPart + 1], 0)
      if isWindow and math.floor(ofMinute * minuteMs / windowMs) == windowIndex then
        windowHeld, usedInWindow, windowOld, isOld = math.max(0, windowHeld - usedInWindow) + spent, spent, windowOld - spent, true
      end
      --end
      if isOld then
        redis.call('HSET', KEYS[1], hash[at], string.format(RECORD_FORMAT, part[1], STALE, part[3], each(windowHeld, usedInWindow), spent))
      end
    end
  end
  --each
  if isWindow then
    windowTaken, windowUsed, windowUnstated = math.max(0, windowTaken - windowOld), math.max(0, windowUsed - windowOld), 0
    redis.call('HSET', KEYS[1], 'windowReset', math.max(now, windowReset + 1))
  end
  --end
  if fields[3] then redis.call('HSET', KEYS[1], 'unstated', string.format(UNSTATED_FORMAT, minute, each(windowUnstated))) end
  redis.call('HSET', KEYS[1], 'exhausted', 0, each('window', windowIndex, 'windowTaken', windowTaken, 'windowUsed', windowUsed))
end
-- A user who may not publish loses nothing but the notice.
if ARGV[1] ~= '' then redis.pcall('PUBLISH', ARGV[1], 'reset ' .. KEYS[1]) end
for _, number in ipairs({ each(windowIndex, windowTaken, windowUsed) }) do table.insert(reply, number) end
return reply
