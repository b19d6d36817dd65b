-- Leases in flight: their ids in a sorted set, by when they expire. Under a name that no lease has it says when it was
-- written, as a number below 0, so that this comes before all of them. Told: the lease, and how long the key has to live
-- at least, what to do (0 look, 1 admit, 2 renew, 3 release), the capacity, how long a lease lives, and how many places
-- are asked for.
local key, lease, given = KEYS[1], ARGV[1], ARGV[3]
local least, what, capacity, ttl, need = struct.unpack('<ddddd', ARGV[2])
local now = time(given)
local at = math.max(now, -(redis.call('ZSCORE', key, '') or 0))
-- Lua itself would write a time with 14 digits.
local gone = string.format('%.0f', at)
local count = redis.call('ZCOUNT', key, '(' .. gone, '+inf')

-- When the one of those in flight expires that is so many after the first.
local function expires(index)
  return tonumber(redis.call('ZRANGEBYSCORE', key, '(' .. gone, '+inf', 'WITHSCORES', 'LIMIT', index, 1)[2])
end

local allowed
if what == 0 then
  allowed = count + need <= capacity
else
  local is_held = tonumber(redis.call('ZSCORE', key, lease) or -1) > at
  allowed = is_held or (what == 1 and count < capacity)
  if allowed then
    redis.call('ZREMRANGEBYSCORE', key, 0, gone)
    if what == 3 then
      redis.call('ZREM', key, lease)
      redis.call('ZADD', key, -at, '')
      count = count - 1
    else
      redis.call('ZADD', key, at + ttl, lease, -at, '')
      count = is_held and count or count + 1
    end
  end
end

local retry, next_one, last = -1, -1, -1
if count > 0 then
  last = tonumber(redis.call('ZREVRANGE', key, 0, 0, 'WITHSCORES')[2])
  next_one = expires(math.max(count - capacity, 0))
  if not allowed and need > 0 and need <= capacity then retry = expires(count + need - capacity - 1) end
end
if allowed and what > 0 then
  if count == 0 then
    redis.call('DEL', key)
  elseif given then
    -- A test's time has nothing to do with the server's: what it writes lives for ever.
    redis.call('PERSIST', key)
  else
    -- Until its last lease expires, half as long again and a second, as every key does.
    redis.call('PEXPIRE', key, math.min(math.ceil(math.max(last - now, least) * 0.0015) + 1000, 9007199254740))
  end
end
return struct.pack('<dBdddd', now, allowed and 1 or 0, count, retry, next_one, last)
