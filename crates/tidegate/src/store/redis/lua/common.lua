-- The server's time in microseconds, or a test's.
local function time(given)
  if given and given ~= '' then return tonumber(given) end
  local now = redis.call('TIME')
  return now[1] * 1000000 + now[2]
end

-- Writes what a step came to. A key lives until it is as good as new and a second longer; that is stored first, so that
-- a key that lives long enough already is only written over. A test's time has nothing to do with the server's: what it
-- writes lives for ever.
local function put(key, stored, quota, state, span, now, numbers, given)
  if state == '' then
    redis.call('DEL', key)
  elseif given and given ~= '' then
    redis.call('SET', key, struct.pack('<dc0c0', 0, state, quota))
  elseif stored and #stored == 8 + #state + #quota and now + span <= struct.unpack('<d', stored) then
    redis.call('SETRANGE', key, '8', state)
  else
    local ttl = math.max(math.ceil(span / 1000) + 1000, (struct.unpack('<d', numbers)))
    ttl = math.min(ttl, 9007199254740)
    -- The server counts from the beginning of its millisecond.
    local till = now + (ttl - 1) * 1000
    redis.call('PSETEX', key, string.format('%.0f', ttl), struct.pack('<dc0c0', till, state, quota))
  end
end
