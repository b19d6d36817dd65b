-- Posts requests for random keys among a million. The arguments are the parts of the body before and after the key,
-- and the seed.

function init(arguments)
  math.randomseed(tonumber(arguments[3]))
  local length = #arguments[1] + 6 + #arguments[2]
  before = "POST " .. wrk.path .. " HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    .. "content-length: " .. length .. "\r\n\r\n" .. arguments[1]
  after = arguments[2]
end

function request()
  return before .. string.format("%06d", math.random(0, 999999)) .. after
end
