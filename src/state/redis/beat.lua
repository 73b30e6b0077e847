-- A sign of life of one process, and the latest of all.
--
-- KEYS[1]  a hash of all processes
-- ARGV     1 process  2 1: it is about to end  3 for how many ms a silent one is kept
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if ARGV[2] == '1' then redis.call('HDEL', KEYS[1], ARGV[1])
else redis.call('HSET', KEYS[1], ARGV[1], now) end
local beats = redis.call('HGETALL', KEYS[1])
for at = 1, #beats, 2 do
  if now - beats[at + 1] > tonumber(ARGV[3]) then redis.call('HDEL', KEYS[1], beats[at]) end
end
redis.call('EXPIRE', KEYS[1], 3600)
return beats
