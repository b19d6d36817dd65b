-- When it was written and the running total before the first run; then the runs, oldest first: when, and the running
-- total after it. Told: cost (below 0 to give back), room, period, rate, and how to answer: 0 with the runs that matter
-- to the answer only, 1 the same and take nothing, 2 with the whole log.
local function sliding_log(value, tail, now, numbers)
  local cost, room, period, rate, how = struct.unpack('<ddddd', numbers, 9)
  if not value then
    if cost < 0 or how == 1 or room < 0 then return end
    return struct.pack('<dddd', now, 0, now, cost), period
  end
  local last, before = struct.unpack('<dd', value, 9)
  local at = last > now and last or now
  local count = (#value - tail - 24) / 16
  local function run(i)
    return struct.unpack('<dd', value, 9 + i * 16)
  end
  local function runs(from, to)
    return string.sub(value, 9 + from * 16, 24 + to * 16)
  end
  -- The first run from `low` on that is not `past`.
  local function search(low, past)
    local high = count + 1
    while low < high do
      local middle = math.floor((low + high) / 2)
      if past(run(middle)) then low = middle + 1 else high = middle end
    end
    return low
  end

  local first = search(1, function(when) return at - when >= period end)
  if first > 1 then
    local _, total = run(first - 1)
    before = total
  end
  local newest, total = now, before
  if first <= count then newest, total = run(count) end
  local used = total - before

  if cost < 0 then
    local target = total + cost
    if target <= before then return '' end
    local index = search(first, function(_, sum) return sum < target end)
    local when = run(index)
    local state = struct.pack('<dd', at, before) .. runs(first, index - 1) .. struct.pack('<dd', when, target)
    return state, period - (at - when) + at - now
  end

  -- What the answer needs: the oldest run, those whose end makes room for one more and for this, and the newest.
  local shown
  if how < 2 and count - first > 3 then
    local parts, previous = { string.sub(value, 1, 8), struct.pack('<dd', last, before) }, 0
    local function show(i)
      if i > previous then
        parts[#parts + 1] = runs(i, i)
        previous = i
      end
    end
    show(first)
    for _, rest in ipairs({ rate - 1, room }) do
      if rest >= 0 and used > rest then show(search(first, function(_, sum) return total - sum > rest end)) end
    end
    show(count)
    parts[#parts + 1] = string.sub(value, -tail)
    shown = table.concat(parts)
  end
  if how == 1 or used > room then return nil, nil, shown end

  local stop = count
  if first <= count and newest == at then stop = count - 1 end
  local kept = runs(first, stop)
  if total > 4503599627370496 then
    -- Totals are made small again long before they stop being exact.
    local again = {}
    for i = first, stop do
      local when, sum = run(i)
      again[#again + 1] = struct.pack('<dd', when, sum - before)
    end
    kept, total, before = table.concat(again), used, 0
  end
  return struct.pack('<dd', at, before) .. kept .. struct.pack('<dd', at, total + cost), period + at - now, shown
end
