-- One `take` of one process for one client, after client.lua; transition.ts is the twin of both and explains the rules.
--
-- KEYS[1]  the client's hash
-- ARGV     1 process  2 sequence  3 need  4 want  5 latest answered call  6 since
--          7 channel of the notices, which all processes read
--          then for each window: limit; index, used, held, taken, returned, reset, fresh   (as the caller states them)
-- reply    status (0 granted, 1 short, 2 stale, 3 lost), now in ms rounded up,
--          notice that went out because of it (0 none, 1 short, 2 unknown, 3 free; negative: it could not be published);
--          then for each window: index, held, taken, used, reset
local EXPIRY_AFTER_DAY_MS, LEARNING_MS, SETTLING_MS = 3600000, 1000, 15
local ANNOUNCED_PART, NEWS_AT_MOST = 16, 16

-- `replyNow` is never early, so that a deadline computed from it is never late.
local replyNow = tonumber(time[1]) * 1000 + math.ceil(tonumber(time[2]) / 1000)
local processField = 'process:' .. ARGV[1]
local sequence = tonumber(ARGV[2])
local need, want = tonumber(ARGV[3]), tonumber(ARGV[4])
local storedExhausted = stored(fields[5], 0)
local wasExhausted = isSameMinute and storedExhausted or 0

-- The field of a process is sequence:status:minute, held:used of each window, and `spent`, which counters.lua alone reads.
local latest = isSameDay and redis.call('HGET', KEYS[1], processField)
local part = latest and { string.match(latest, RECORD) } or {}
-- 0 is below every sequence number.
local lastSequence, lastMinute = stored(part[1], 0), stored(part[3], -1)
local tookPart = lastMinute == minute
local isKnown = lastSequence > tonumber(ARGV[6])
--each
local oldWindowHeld, oldWindowUsed = 0, 0
if isKnown and math.floor(lastMinute * minuteMs / windowMs) == windowIndex then
  oldWindowHeld, oldWindowUsed = stored(part[windowPart], 0), stored(part[windowPart + 1], 0)
end
--end
if sequence <= lastSequence then
  local status = sequence == lastSequence and stored(part[2], STALE) or STALE
  return { status, replyNow, 0, each(windowIndex, oldWindowHeld, windowTaken, windowUsed, windowReset) }
end
-- Tokens of the minute known to be taken by all who took part in it; a process that is alone knows all of it, even when the second comes.
local announced, news = minuteTaken, 0
if activeNow > 1 then
  local numbers = { string.match(fields[6] or '', '^(%d+):(%d+)$') }
  announced, news = stored(numbers[1], 0), stored(numbers[2], 0)
end
if not tookPart then activeNow = activeNow + 1 end
local active = math.max(activeNow, activeBefore, 1)

-- The hash does not have the call that was answered: it is new, or an old copy.
local isRestating = tonumber(ARGV[dayArguments + 1]) == dayIndex and tonumber(ARGV[5]) > lastSequence
local hasUnstated = false
-- What the caller holds and has used, applied to the counts. A caller that names another window holds nothing of this one.
--each
local windowLimit = tonumber(ARGV[windowArguments])
local usedInWindow, windowHeld = 0, 0
if tonumber(ARGV[windowArguments + 1]) == windowIndex then
  usedInWindow, windowHeld = tonumber(ARGV[windowArguments + 2]), tonumber(ARGV[windowArguments + 3])
  local known, returned = tonumber(ARGV[windowArguments + 4]), tonumber(ARGV[windowArguments + 5])
  if tonumber(ARGV[windowArguments + 6]) < windowReset then
    local fresh = tonumber(ARGV[windowArguments + 7])
    usedInWindow, windowHeld, known, returned = fresh, math.max(0, windowHeld - usedInWindow) + fresh, 0, 0
  end
  if isRestating then
    local change = windowHeld - oldWindowHeld
    local explained = math.max(0, math.min(change + returned, windowUnstated))
    local more = math.max(0, known - returned - windowTaken - change + explained) - explained
    windowTaken, windowUsed, windowUnstated = windowTaken + more, windowUsed + more, windowUnstated + more
  end
end
-- Never below zero, whatever a caller states.
windowTaken = math.max(0, windowTaken + windowHeld - oldWindowHeld)
windowUsed = math.max(0, windowUsed + usedInWindow - oldWindowUsed)
hasUnstated = hasUnstated or windowUnstated > 0
--end

local learningUntil = stored(fields[4], 0)
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

-- How many tokens of a window the caller may have in hand; it may spend the least of all windows.
local function spendableIn(left, inHand)
  return inHand + math.min(math.max(grantable, math.min(want, math.floor(left / active))), left)
end
local spendable = -math.huge
if want > 0 then spendable = math.min(each(spendableIn(windowLimit - windowTaken, windowHeld - usedInWindow))) end
local brought = math.max(0, spendable - minuteHeld + usedInMinute)
local status = GRANTED
if grantable < need then status = LOST elseif brought < need then status = SHORT end
local spent = math.min(brought, need)
local isFree, isHeld = true, false
--each
local windowGrant = math.max(0, spendable - windowHeld + usedInWindow)
windowTaken, windowUsed = windowTaken + windowGrant, windowUsed + spent
windowHeld, usedInWindow = windowHeld + windowGrant, usedInWindow + spent
isFree = isFree and windowTaken < windowLimit
isHeld = isHeld or (windowTaken >= windowLimit and windowTaken > windowUsed)
--end

local exhausted = wasExhausted
if status == SHORT then exhausted = 1 elseif isFree then exhausted = 0 end

-- A server out of memory no longer refuses HSET once a script has written, even by a vain DEL: so DEL is called only where needed.
if not isSameDay and redis.call('EXISTS', KEYS[1]) == 1 then redis.call('DEL', KEYS[1]) end
redis.call('HSET', KEYS[1], each('windowTaken', windowTaken, 'windowUsed', windowUsed),
  processField, string.format(RECORD_FORMAT, sequence, status, minute, each(windowHeld, usedInWindow), spent))
-- Fields that seldom change are written only when they do.
if not (isSameMinute and tookPart) then
  redis.call('HSET', KEYS[1], each('window', windowIndex), 'activeNow', activeNow, 'activeBefore', activeBefore)
end
if isLoss or not isSameDay then redis.call('HSET', KEYS[1], 'learningUntil', learningUntil) end
if exhausted ~= storedExhausted or not isSameDay then redis.call('HSET', KEYS[1], 'exhausted', exhausted) end
if (isRestating or not isSameMinute) and (hasUnstated or (isSameDay and fields[3])) then
  redis.call('HSET', KEYS[1], 'unstated', string.format(UNSTATED_FORMAT, minute, each(windowUnstated)))
end
if not isSameDay then
  redis.call('PEXPIREAT', KEYS[1], (dayIndex + 1) * dayMs + EXPIRY_AFTER_DAY_MS)
end

local notice, name = 0, nil
if isLoss then
  notice, name = 2, 'unknown'
elseif status == SHORT then
  -- The first refusal is always reported, a later one while a window is used up, but not all of it is spent.
  if wasExhausted == 0 or isHeld then notice, name = 1, 'short' end
else
  local doOthersHold = dayTaken - dayHeld > dayUsed - usedInDay
  local isMuchTaken = minuteTaken - announced > math.floor(minuteLimit / ANNOUNCED_PART)
  if wasExhausted > exhausted or (doOthersHold and isMuchTaken) then notice, name, news = 3, 'free', news + 1 end
end
if name then
  local sent = redis.pcall('PUBLISH', ARGV[7], string.format(NOTICE_FORMAT, name, KEYS[1], ARGV[1], each(windowIndex, windowTaken, windowHeld)))
  -- A user who may not publish loses nothing but the notice.
  if type(sent) == 'table' then notice = -notice end
end
if name or minuteTaken < announced then announced = minuteTaken end
local announcement = string.format('%.0f:%d', announced, news)
if activeNow > 1 and announcement ~= fields[6] then redis.call('HSET', KEYS[1], 'announced', announcement) end
return { status, replyNow, notice, each(windowIndex, windowHeld, windowTaken, windowUsed, windowReset) }
