-- The server's time in microseconds, or a test's.
local function time(given)
  if given and given ~= '' then return tonumber(given) end
  local now = redis.call('TIME')
  return now[1] * 1000000 + now[2]
end

-- Writes what a step came to. A key lives until it is as good as new, half as long again and a second; that is stored
-- first, so that a key that lives long enough already is only written over, for half the price. A test's time has
-- nothing to do with the server's: what it writes lives for ever.
local function put(key, stored, quota, state, span, now, numbers, given)
  if state == '' then return redis.call('DEL', key) end
  -- Neither too large to be ours nor not a number.
  if not (span < 1e30) then error('a number in the stored value is not ours') end
  if given and given ~= '' then return redis.call('SET', key, struct.pack('<dc0c0', 0, state, quota)) end
  -- The first of the numbers is how long a key has to live at least.
  span = math.max(span, (struct.unpack('<d', numbers)))
  if stored and #stored == 8 + #state + #quota and now + span <= struct.unpack('<d', stored) then
    redis.call('SETRANGE', key, '8', state)
  else
    local ttl = math.min(math.ceil(span * 0.0015) + 1000, 9007199254740)
    -- The server counts from when the script began, which may be a while before it was asked for the time.
    local till = now + (ttl - 500) * 1000
    redis.call('PSETEX', key, ttl, struct.pack('<dc0c0', till, state, quota))
  end
end
