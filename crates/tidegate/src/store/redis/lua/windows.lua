-- How far a time is into its window, and how many windows later than `last` that one is.
local function position(at, last, length, start)
  local into = (at - start) % length
  local elapsed = at - last
  if elapsed <= into then return into, 0 end
  return into, math.ceil((elapsed - into) / length)
end
