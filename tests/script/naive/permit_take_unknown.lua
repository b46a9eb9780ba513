-- SPDX-License-Identifier: MIT
-- Planted: a take that does not know its id: a repeat takes another permit.
local free, time = tonumber(redis.call('get', KEYS[1]) or '0'), redis.call('time')
if free < 1 then
    local next = redis.call('zrange', KEYS[2], 0, 0, 'withscores')[2]
    return {0, next - time[1] * 1000}
end
redis.call('zadd', KEYS[2], string.format('%.0f', time[1] * 1000 + ARGV[1]), ARGV[5])
return redis.call('decrby', KEYS[1], 1)
