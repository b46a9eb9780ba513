-- SPDX-License-Identifier: MIT
-- Planted: a count-down that counts as often as it comes.
local left = math.max(0, tonumber(redis.call('get', KEYS[1]) or '0') - 1)
if left > 0 then
    redis.call('decr', KEYS[1])
else
    redis.call('del', KEYS[1])
end
return left
