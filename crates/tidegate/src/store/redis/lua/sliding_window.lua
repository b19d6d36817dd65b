-- When it was written, and what each bucket has seen, oldest first. Told: cost (below 0 to give back), room, length of
-- a bucket, start, buckets.
local function sliding_window(value, tail, now, numbers)
  local cost, room, length, start, buckets = struct.unpack('<ddddd', numbers, 9)
  if cost < 0 and not value then return end
  local count = buckets + 1
  local format = '<' .. string.rep('d', count + 1)
  local at, last, seen = now, now, {}
  if value then
    seen = { struct.unpack(format, value, 9) }
    last = seen[1]
    if last > now then at = last end
  end
  local into, entered = position(at, last, length, start)
  local counts, full = {}, 0
  for i = 1, count do
    -- The first that was read is the time, and after the last comes where the next would begin.
    local units = value and i + entered <= count and seen[1 + i + entered] or 0
    counts[i] = units
    if i > 1 then full = full + units end
  end
  if cost < 0 then
    local left, rest = -cost, 0
    for i = count, 1, -1 do
      local back = math.min(left, counts[i])
      counts[i] = counts[i] - back
      left, rest = left - back, rest + counts[i]
    end
    if rest == 0 then return '' end
  else
    local spare, fading = room - full, counts[1]
    if spare < 0 then return end
    if fading > spare then
      -- fading * (length - into) <= spare * length, exactly.
      local weighted, allowed = fading * (length - into), spare * length
      if weighted >= 9007199254740992 or allowed >= 9007199254740992 then
        local _, _, product, at_most = wide()
        local high, low = product(length - into, fading)
        if not at_most(high, low, product(length, spare)) then return end
      elseif weighted > allowed then
        return
      end
    end
    counts[count] = counts[count] + cost
  end
  return struct.pack(format, at, unpack(counts)), count * length - into + at - now
end
