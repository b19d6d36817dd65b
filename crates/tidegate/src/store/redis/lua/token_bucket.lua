-- The same in limbs.
local function wide_bucket(missing, high, elapsed, refill, gives, cost, room, cost_high, room_high)
  local BASE, split, product, at_most, minus = wide()
  cost = math.abs(cost)
  if cost_high then
    cost_high = math.abs(cost_high)
  else
    if room < 0 and not gives then return end
    cost_high, cost = split(cost)
    room_high, room = split(room)
  end
  if high == 0 then high, missing = split(missing) end
  high, missing = minus(high, missing, product(elapsed, refill))
  if gives then
    high, missing = minus(high, missing, cost_high, cost)
  else
    if room_high < 0 or not at_most(high, missing, room_high, room) then return end
    high, missing = high + cost_high, missing + cost
    if missing >= BASE then high, missing = high + 1, missing - BASE end
  end
  if high < 131072 then return 0, high * BASE + missing end
  return high, missing
end

-- What is missing to the capacity, in sub-units, and when it was written: two numbers, or three when they do not fit
-- in 53 bits. Told: cost (below 0 to give back), room, refill, and the high limbs of cost and room if they need any.
local function token_bucket(value, tail, now, numbers)
  local cost, room, refill = struct.unpack('<ddd', numbers, 9)
  local gives, cost_high, room_high = cost < 0, nil, nil
  if #numbers > 32 then
    cost_high, room_high = struct.unpack('<dd', numbers, 33)
    gives = gives or cost_high < 0
  end
  local at, missing, high, elapsed = now, 0, 0, 0
  if value then
    local last
    if #value - tail == 24 then
      missing, last = struct.unpack('<dd', value, 9)
    else
      high, missing, last = struct.unpack('<ddd', value, 9)
    end
    if last > now then at = last end
    elapsed = at - last
  elseif gives then
    return
  end
  if high == 0 and not cost_high then
    local back = elapsed * refill
    if back >= missing then missing = 0 else missing = missing - back end
    if missing > room and not gives then return end
    missing = missing + cost
  else
    high, missing = wide_bucket(missing, high, elapsed, refill, gives, cost, room, cost_high, room_high)
    if not high then return end
    if high > 0 then
      return struct.pack('<ddd', high, missing, at), (high * 68719476736 + missing) / refill + at - now
    end
  end
  if missing <= 0 then return '' end
  return struct.pack('<dd', missing, at), missing / refill + at - now
end
