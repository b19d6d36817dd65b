local quota, numbers, given = ARGV[1], ARGV[2], ARGV[3]
local now = time(given)
local stored = redis.call('GET', KEYS[1])
local value = stored
if stored and string.sub(stored, -#quota) ~= quota then
  -- Written under another quota: what it comes to under this one is for the caller to work out.
  if stored ~= ARGV[4] then return struct.pack('<dBc0', now, 2, stored) end
  stored, value = false, ARGV[5] ~= '' and ARGV[5]
end
local state, span, shown = step(value, #quota, now, numbers)
if state then put(KEYS[1], stored, quota, state, span, now, numbers, given) end
return struct.pack('<dBc0', now, state and 1 or 0, shown or value or '')
