-- Numbers beyond 2^53 are two limbs: high * 2^36 + low. Dividing by a power of two is exact. One function makes the
-- others, because hardly any call needs them.
local function wide()
  local BASE = 68719476736

  local function split(number)
    local high = math.floor(number / BASE)
    return high, number - high * BASE
  end

  -- The product of a span below 2^51 and a count below 2^33.
  local function product(span, count)
    local s1 = math.floor(span / 1048576)
    local s0 = span - s1 * 1048576
    local c1 = math.floor(count / 65536)
    local c0 = count - c1 * 65536
    local x, y = s1 * c0, s0 * c1 * 65536
    local xh, yh = math.floor(x / 65536), math.floor(y / BASE)
    local low = (x - xh * 65536) * 1048576 + s0 * c0 + (y - yh * BASE)
    local carry = math.floor(low / BASE)
    return s1 * c1 + xh + yh + carry, low - carry * BASE
  end

  local function at_most(ah, al, bh, bl)
    return ah < bh or (ah == bh and al <= bl)
  end

  -- Never below 0.
  local function minus(ah, al, bh, bl)
    if at_most(ah, al, bh, bl) then return 0, 0 end
    if al < bl then return ah - bh - 1, al + BASE - bl end
    return ah - bh, al - bl
  end

  return BASE, split, product, at_most, minus
end
