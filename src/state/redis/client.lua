-- The beginning of take.lua and counters.lua: the time, and what the client's hash holds of the windows that run. authority.ts puts
-- constants before it, and repeats lines from `--each` to `--end` and lists in `each(...)` with each window's name in place of `window`.
local time = redis.call('TIME')
local GRANTED, SHORT, STALE, LOST = 0, 1, 2, 3

-- Whatever else was written into the hash counts as absent.
local function stored(text, absent)
  local number = tonumber(text)
  if number and number >= 0 and number < 1e15 and number % 1 == 0 then return number end
  return absent
end

-- `now` decides the windows.
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local fields = redis.call('HMGET', KEYS[1], 'activeNow', 'activeBefore', 'unstated', 'learningUntil', 'exhausted', 'announced',
  each('window', 'windowTaken', 'windowUsed', 'windowReset'))
-- -1 stands for a missing field, since math.max needs a number.
local lastMinute, lastDay = stored(fields[7], -1), stored(fields[#fields - 3], -1)
local isUnknown = lastDay == -1
local minute = math.floor(now / minuteMs)
if lastMinute == minute + 1 and not isUnknown then minute = lastMinute end
local isSameDay = lastDay == math.floor(minute * minuteMs / dayMs)
local isSameMinute = isSameDay and minute == lastMinute

local activeNow, activeBefore = 0, 0
if isSameMinute then
  activeNow, activeBefore = stored(fields[1], 0), stored(fields[2], 0)
elseif isSameDay and minute == lastMinute + 1 then
  activeBefore = stored(fields[1], 0)
end
local unstated = { string.match(fields[3] or '', UNSTATED) }
local unstatedMinute = stored(unstated[1], -1)
--each
local windowIndex = math.floor(minute * minuteMs / windowMs)
local windowTaken, windowUsed, windowReset, windowUnstated = 0, 0, 0, 0
if isSameDay then
  if stored(fields[windowField], -1) == windowIndex then
    windowTaken, windowUsed = stored(fields[windowField + 1], 0), stored(fields[windowField + 2], 0)
  end
  windowReset = stored(fields[windowField + 3], 0)
  if math.floor(unstatedMinute * minuteMs / windowMs) == windowIndex then windowUnstated = stored(unstated[windowNumber + 1], 0) end
end
--end
