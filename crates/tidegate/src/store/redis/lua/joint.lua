local given = ARGV[1]
-- By the lower half of a quota's first byte.
local steps = { [0] = token_bucket, fixed_window, sliding_window, sliding_log }
local now = time(given)
local taken, answer, writes = 1, { '' }, {}
for i, key in ipairs(KEYS) do
  local quota, numbers, expected, instead = ARGV[i * 4 - 2], ARGV[i * 4 - 1], ARGV[i * 4], ARGV[i * 4 + 1]
  local stored = redis.call('GET', key)
  local value = stored
  if stored and string.sub(stored, -#quota) ~= quota then
    if stored == expected then
      stored, value = false, instead ~= '' and instead
    else
      taken = 2
    end
  end
  answer[i + 1] = value or ''
  if taken == 1 then
    local state, span = steps[string.byte(quota) % 16](value, #quota, now, numbers)
    if state then writes[i] = { key, stored, quota, state, span, now, numbers, given } else taken = 0 end
  end
end
if taken == 1 then
  for _, write in ipairs(writes) do
    put(unpack(write))
  end
end
answer[1] = struct.pack('<dB', now, taken)
return answer
