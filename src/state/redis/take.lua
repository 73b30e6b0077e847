-- One `take` of one process for one client, in one atomic step; client.lua stands before it. transition.ts is the twin of both and
-- explains the rules.
--
-- KEYS[1]  the client's hash
-- ARGV     1 process  2 sequence  3 limit per minute  4 limit per day
--          5 minute index  6 used  7 held  8 taken  9 returned  10 reset  11 fresh
--          12 to 18 the same of the day   (as the caller states them)
--          19 need  20 want  21 latest answered call  22 since
--          23 channel of the notices, which all processes read
-- reply    status (0 granted, 1 short, 2 stale, 3 lost), now in ms rounded up,
--          minute index, held, taken, used, reset, day index, held, taken, used, reset,
--          notice that went out because of it (0 none, 1 short, 2 unknown, 3 free; negative: it could not be published)
local EXPIRY_AFTER_DAY_MS, LEARNING_MS, SETTLING_MS = 3600000, 1000, 15
local ANNOUNCED_PART, NEWS_AT_MOST = 16, 16

-- `replyNow` is never early, so that a deadline computed from it is never late.
local replyNow = tonumber(time[1]) * 1000 + math.ceil(tonumber(time[2]) / 1000)
local processField = 'process:' .. ARGV[1]
local sequence = tonumber(ARGV[2])
local need, want = tonumber(ARGV[19]), tonumber(ARGV[20])
local storedExhausted = stored(fields[13], 0)
local wasExhausted = isSameMinute and storedExhausted or 0

-- The field of a process is sequence:status:minute:held:used:day held:day used:spent; counters.lua alone reads `spent`.
local lastSequence, lastStatus, tookPart = 0, STALE, false -- 0: below every sequence number
local oldMinuteHeld, oldMinuteUsed, oldDayHeld, oldDayUsed = 0, 0, 0, 0
local latest = isSameDay and redis.call('HGET', KEYS[1], processField)
if latest then
  local part = { string.match(latest, '^(%d+):(%d):(%d+):(%d+):(%d+):(%d+):(%d+)') }
  if part[1] then
    lastSequence, lastStatus = stored(part[1], 0), stored(part[2], STALE)
    tookPart = stored(part[3], -1) == minute
    -- A caller that has forgotten the client since that call does not take back what it used before.
    if lastSequence > tonumber(ARGV[22]) then
      if tookPart then
        oldMinuteHeld, oldMinuteUsed = stored(part[4], 0), stored(part[5], 0)
      end
      oldDayHeld, oldDayUsed = stored(part[6], 0), stored(part[7], 0)
    end
  end
end

if sequence <= lastSequence then
  local status = STALE
  if sequence == lastSequence then status = lastStatus end
  return { status, replyNow, minute, oldMinuteHeld, minuteTaken, minuteUsed, minuteReset,
    day, oldDayHeld, dayTaken, dayUsed, dayReset, 0 }
end
-- Tokens of the minute known to be taken by all who took part in it; a process that is alone knows all of it, even when the second comes.
local announced, news = minuteTaken, 0
if activeNow > 1 then
  local part = { string.match(fields[14] or '', '^(%d+):(%d+)$') }
  announced, news = stored(part[1], 0), stored(part[2], 0)
end
if not tookPart then activeNow = activeNow + 1 end
local active = math.max(activeNow, activeBefore, 1)

-- What the caller holds and has used, applied to the counts. A caller that names another window holds nothing of this one.
local usedInMinute, heldInMinute, usedInDay, heldInDay = 0, 0, 0, 0
local isOfMinute, isOfDay = tonumber(ARGV[5]) == minute, tonumber(ARGV[12]) == day
if isOfMinute then usedInMinute, heldInMinute = tonumber(ARGV[6]), tonumber(ARGV[7]) end
if isOfDay then usedInDay, heldInDay = tonumber(ARGV[13]), tonumber(ARGV[14]) end
-- A caller that does not know of a reset yet keeps what it has in hand, and may have spent `fresh` tokens since the reset.
local knowsMinute, knowsDay = tonumber(ARGV[10]) >= minuteReset, tonumber(ARGV[17]) >= dayReset
if isOfMinute and not knowsMinute then
  local fresh = tonumber(ARGV[11])
  usedInMinute, heldInMinute = fresh, math.max(0, heldInMinute - usedInMinute) + fresh
end
if isOfDay and not knowsDay then
  local fresh = tonumber(ARGV[18])
  usedInDay, heldInDay = fresh, math.max(0, heldInDay - usedInDay) + fresh
end
minuteTaken = minuteTaken + heldInMinute - oldMinuteHeld
minuteUsed = minuteUsed + usedInMinute - oldMinuteUsed
dayTaken = dayTaken + heldInDay - oldDayHeld
dayUsed = dayUsed + usedInDay - oldDayUsed

-- The hash does not have the call that was answered: it is new, or an old copy.
local isRestating = isOfDay and tonumber(ARGV[21]) > lastSequence
if isRestating then
  local function missing(known, returned, taken, change, unstated)
    local explained = math.max(0, math.min(change + returned, unstated))
    return math.max(0, known - returned - taken + explained) - explained
  end
  if isOfMinute then
    local more = missing(knowsMinute and tonumber(ARGV[8]) or 0, knowsMinute and tonumber(ARGV[9]) or 0, minuteTaken, heldInMinute - oldMinuteHeld, minuteUnstated)
    minuteTaken, minuteUsed, minuteUnstated = minuteTaken + more, minuteUsed + more, minuteUnstated + more
  end
  local more = missing(knowsDay and tonumber(ARGV[15]) or 0, knowsDay and tonumber(ARGV[16]) or 0, dayTaken, heldInDay - oldDayHeld, dayUnstated)
  dayTaken, dayUsed, dayUnstated = dayTaken + more, dayUsed + more, dayUnstated + more
end
-- Never below zero, whatever a caller states.
minuteTaken, minuteUsed = math.max(0, minuteTaken), math.max(0, minuteUsed)
dayTaken, dayUsed = math.max(0, dayTaken), math.max(0, dayUsed)

-- How long the others have to state their use; nothing is granted ahead of need meanwhile.
local learningUntil = stored(fields[12], 0)
local learningLeft = learningUntil - now
if learningLeft > LEARNING_MS then learningLeft = 0 end
local isLoss = (isUnknown or isRestating) and learningLeft <= 0
if isLoss then learningUntil, learningLeft = now + LEARNING_MS, LEARNING_MS end
if learningLeft > 0 or news >= NEWS_AT_MOST then want = need end
local grantable = need
if learningLeft > LEARNING_MS - SETTLING_MS then
  grantable = (isUnknown and not isRestating) and math.min(need, 1) or 0
  want = grantable
end

-- Grants as much as is wanted, within an equal share of what is left, but at least what waits.
local function wished(left)
  local share = math.min(want, math.floor(left / active))
  return math.max(0, math.min(math.max(grantable, share), left))
end

local status, minuteGrant, dayGrant = GRANTED, 0, 0
if want > 0 then
  local minuteFree, dayFree = heldInMinute - usedInMinute, heldInDay - usedInDay
  local dayLeft = tonumber(ARGV[4]) - dayTaken
  local dayAtMost = dayFree + (dayLeft < 0 and dayLeft or wished(dayLeft))
  minuteGrant = math.max(0, math.min(wished(tonumber(ARGV[3]) - minuteTaken), dayAtMost - minuteFree))
  dayGrant = math.max(0, math.min(minuteFree + minuteGrant, dayAtMost) - dayFree)
end
if grantable < need then status = LOST elseif minuteGrant < need then status = SHORT end
local spent = math.min(minuteGrant, need)
minuteTaken, minuteUsed = minuteTaken + minuteGrant, minuteUsed + spent
dayTaken, dayUsed = dayTaken + dayGrant, dayUsed + spent
heldInMinute, usedInMinute = heldInMinute + minuteGrant, usedInMinute + spent
heldInDay, usedInDay = heldInDay + dayGrant, usedInDay + spent

-- In this minute a request was refused, and no token has been free since.
local exhausted = wasExhausted
if status == SHORT then
  exhausted = 1
elseif minuteTaken < tonumber(ARGV[3]) and dayTaken < tonumber(ARGV[4]) then
  exhausted = 0
end

-- A server out of memory no longer refuses HSET once a script has written, even by a vain DEL: so DEL is called only where needed.
if not isSameDay and redis.call('EXISTS', KEYS[1]) == 1 then redis.call('DEL', KEYS[1]) end
redis.call('HSET', KEYS[1], 'minuteTaken', minuteTaken, 'minuteUsed', minuteUsed, 'dayTaken', dayTaken, 'dayUsed', dayUsed,
  processField, string.format('%.0f:%d:%.0f:%.0f:%.0f:%.0f:%.0f:%.0f',
    sequence, status, minute, heldInMinute, usedInMinute, heldInDay, usedInDay, spent))
-- Fields that seldom change are written only when they do.
if not (isSameMinute and tookPart) then
  redis.call('HSET', KEYS[1], 'minute', minute, 'day', day, 'activeNow', activeNow, 'activeBefore', activeBefore)
end
if isLoss or not isSameDay then redis.call('HSET', KEYS[1], 'learningUntil', learningUntil) end
if exhausted ~= storedExhausted or not isSameDay then redis.call('HSET', KEYS[1], 'exhausted', exhausted) end
if (isRestating or not isSameMinute) and (minuteUnstated + dayUnstated > 0 or (isSameDay and fields[11])) then
  redis.call('HSET', KEYS[1], 'unstated', string.format('%.0f:%.0f:%.0f', minute, minuteUnstated, dayUnstated))
end
if not isSameDay then
  redis.call('PEXPIREAT', KEYS[1], (day + 1) * DAY_MS + EXPIRY_AFTER_DAY_MS)
end

local notice, name = 0, nil
if isLoss then
  notice, name = 2, 'unknown '
elseif status == SHORT then
  local limitMinute, limitDay = tonumber(ARGV[3]), tonumber(ARGV[4])
  -- The first refusal is always reported, a later one while a window is used up, but not all of it is spent.
  if wasExhausted == 0 or (minuteTaken >= limitMinute and minuteTaken > minuteUsed) or
      (dayTaken >= limitDay and dayTaken > dayUsed) then
    notice, name = 1, 'short '
  end
else
  local doOthersHold = dayTaken - heldInDay > dayUsed - usedInDay
  local isMuchTaken = minuteTaken - announced > math.floor(tonumber(ARGV[3]) / ANNOUNCED_PART)
  if wasExhausted > exhausted or (doOthersHold and isMuchTaken) then notice, name, news = 3, 'free ', news + 1 end
end
if name then
  local sent = redis.pcall('PUBLISH', ARGV[23], string.format('%s%s %s %.0f %.0f %.0f %.0f %.0f %.0f',
    name, KEYS[1], ARGV[1], minute, minuteTaken, heldInMinute, day, dayTaken, heldInDay))
  -- A user who may not publish loses nothing but the notice.
  if type(sent) == 'table' then notice = -notice end
end
if name or minuteTaken < announced then announced = minuteTaken end
local announcement = string.format('%.0f:%d', announced, news)
if activeNow > 1 and announcement ~= fields[14] then redis.call('HSET', KEYS[1], 'announced', announcement) end
return { status, replyNow, minute, heldInMinute, minuteTaken, minuteUsed, minuteReset,
  day, heldInDay, dayTaken, dayUsed, dayReset, notice }
