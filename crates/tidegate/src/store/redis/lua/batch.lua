-- Several operations, each on its own and in order. Told: the time, if it is a test's; which of the following each key is
-- asked with, a byte for each; and a quota and numbers for each of those, because most keys are asked the same. Without
-- numbers it is a look.
local given, which = ARGV[1], ARGV[2]
-- By the lower half of a quota's first byte.
local steps = { [0] = token_bucket, fixed_window, sliding_window, sliding_log }
local now = time(given)

local function one(key, quota, numbers)
  local stored = redis.call('GET', key)
  if numbers == '' then return 0, stored or '' end
  -- Written under another quota: what it comes to under this one is for the caller to work out.
  if stored and string.sub(stored, -#quota) ~= quota then return 2, stored end
  local state, span, shown = steps[string.byte(quota) % 16](stored, #quota, now, numbers)
  if state then put(key, stored, quota, state, span, now, numbers, given) end
  return state and 1 or 0, shown or stored or ''
end

local answer = { struct.pack('<d', now) }
-- Keys about which the caller has to ask again: what comes later about one of those comes after that.
local again = {}
for i, key in ipairs(KEYS) do
  local asked = string.byte(which, i) * 2 + 1
  local ran, done, shown = false
  -- What goes wrong with one key is not the others' affair: its caller asks again, alone, and hears of it.
  if not again[key] then ran, done, shown = pcall(one, key, ARGV[asked], ARGV[asked + 1]) end
  if not ran or done == 2 then again[key] = true end
  answer[i + 1] = ran and struct.pack('<BI4c0', done, #shown, shown) or struct.pack('<BI4', 3, 0)
end
return table.concat(answer)
