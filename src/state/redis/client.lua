-- The beginning of take.lua and of counters.lua: the time, and what the client's hash holds of the windows that run.
local time = redis.call('TIME')
local MINUTE_MS, DAY_MS = 60000, 86400000
local GRANTED, SHORT, STALE, LOST = 0, 1, 2, 3

-- Whatever else was written into the hash counts as absent.
local function stored(text, absent)
  local number = tonumber(text)
  if number and number >= 0 and number < 1e15 and number % 1 == 0 then return number end
  return absent
end

-- `now` decides the windows.
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local fields = redis.call('HMGET', KEYS[1], 'minute', 'minuteTaken', 'minuteUsed', 'activeNow', 'activeBefore',
  'day', 'dayTaken', 'dayUsed', 'minuteReset', 'dayReset', 'unstated', 'learningUntil', 'exhausted', 'announced')
-- -1 stands for a missing field, since math.max needs a number.
local lastMinute, lastDay = stored(fields[1], -1), stored(fields[6], -1)
local isUnknown = lastDay == -1
if isUnknown then lastMinute = -1 end
local minute = math.floor(now / MINUTE_MS)
if lastMinute == minute + 1 then minute = lastMinute end
local day = math.floor(minute * MINUTE_MS / DAY_MS)
local isSameDay = day == lastDay
local isSameMinute = isSameDay and minute == lastMinute

local minuteTaken, minuteUsed, minuteUnstated, minuteReset, activeNow, activeBefore = 0, 0, 0, 0, 0, 0
if isSameMinute then
  minuteTaken, minuteUsed = stored(fields[2], 0), stored(fields[3], 0)
  activeNow, activeBefore = stored(fields[4], 0), stored(fields[5], 0)
elseif isSameDay and minute == lastMinute + 1 then
  activeBefore = stored(fields[4], 0)
end
local dayTaken, dayUsed, dayUnstated, dayReset = 0, 0, 0, 0
if isSameDay then
  dayTaken, dayUsed = stored(fields[7], 0), stored(fields[8], 0)
  minuteReset, dayReset = stored(fields[9], 0), stored(fields[10], 0)
  local part = { string.match(fields[11] or '', '^(%d+):(%d+):(%d+)$') }
  if stored(part[1], -1) == minute then minuteUnstated = stored(part[2], 0) end
  dayUnstated = stored(part[3], 0)
end
