-- What access_by_lua runs: who asks, and is there quota left? Minute and day are counted in one pipelined call to Redis.
local ffi = require "ffi"
local redis = require "nginx.redis"
local settings = require "nginx-lua-settings"

-- lua-resty-string, which wraps the same call, is no Debian package; nginx has libcrypto in its process anyway.
ffi.cdef [[ unsigned char *SHA256(const unsigned char *d, size_t n, unsigned char *md); ]]
local libcrypto = ffi.C
local digest = ffi.new "unsigned char[32]"

local clients = {}
for hex, id in pairs(settings.clients) do
  local bytes = hex:gsub("%x%x", function(pair) return string.char(tonumber(pair, 16)) end)
  clients[bytes] = id
end

local floor, sub, to_number = math.floor, string.sub, tonumber
local per_minute, per_day = settings.per_minute, settings.per_day

local function answer(status, body)
  ngx.status = status
  ngx.header["Content-Type"] = "application/json; charset=utf-8"
  ngx.header["Content-Length"] = #body
  ngx.print(body)
  return ngx.exit(status)
end

local function find_client(authorization)
  if not authorization then return nil end
  local scheme = sub(authorization, 1, 7)
  if scheme ~= "Bearer " and scheme:lower() ~= "bearer " then return nil end
  libcrypto.SHA256(sub(authorization, 8), #authorization - 7, digest)
  return clients[ffi.string(digest, 32)]
end

-- Returns what the two windows have counted, this request included; nil where Redis does not answer.
local function count(client, minute, day)
  local connection = redis:new()
  connection:set_timeout(100)
  if not connection:connect("127.0.0.1", settings.redis_port) then return nil end
  local minute_key, day_key = "m:" .. client .. ":" .. minute, "d:" .. client .. ":" .. day
  connection:init_pipeline(2)
  connection:incr(minute_key)
  connection:incr(day_key)
  local counted = connection:commit_pipeline()
  if not counted then return nil end
  local in_minute, in_day = to_number(counted[1]), to_number(counted[2])
  if in_minute == 1 or in_day == 1 then
    connection:init_pipeline(2)
    connection:expire(minute_key, 120)
    connection:expire(day_key, 172800)
    connection:commit_pipeline()
  end
  connection:set_keepalive(60000, 128)
  return in_minute, in_day
end

local function admit()
  local client = find_client(ngx.var.http_authorization)
  if not client then
    ngx.header["WWW-Authenticate"] = "Bearer"
    return answer(401, '{"code":401,"message":"Unknown API key"}')
  end
  local now = ngx.time()
  local minute, day = floor(now / 60), floor(now / 86400)
  local in_minute, in_day = count(client, minute, day)
  if not in_minute or not in_day then
    return answer(503, '{"code":503,"message":"The limiter is unavailable"}')
  end
  local limit, remaining, reset = per_minute, per_minute - in_minute, (minute + 1) * 60
  if per_day - in_day < remaining then
    limit, remaining, reset = per_day, per_day - in_day, (day + 1) * 86400
  end
  local headers = ngx.header
  headers["X-RateLimit-Limit"] = limit
  headers["X-RateLimit-Remaining"] = remaining > 0 and remaining or 0
  headers["X-RateLimit-Reset"] = reset
  if remaining < 0 then
    headers["Retry-After"] = reset - now
    return answer(429, '{"code":429,"message":"Too many requests"}')
  end
  ngx.var.client = client
end

return { admit = admit }
