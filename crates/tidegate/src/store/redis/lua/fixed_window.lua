-- What is missing to the capacity, in units, and when it was written. Told: cost (below 0 to give back), room, rate,
-- period, start.
local function fixed_window(value, tail, now, numbers)
  local cost, room, rate, period, start = struct.unpack('<ddddd', numbers, 9)
  if cost < 0 and not value then return end
  local at, missing, last = now, 0, now
  if value then
    missing, last = struct.unpack('<dd', value, 9)
    if last > now then at = last end
  end
  local into, entered = position(at, last, period, start)
  missing = math.max(missing - entered * rate, 0)
  if cost >= 0 and missing > room then return end
  missing = missing + cost
  if missing <= 0 then return '' end
  return struct.pack('<dd', missing, at), math.ceil(missing / rate) * period - into + at - now
end
