-- SPDX-License-Identifier: MIT
-- Planted: a take that does not know its repeats.
local free = tonumber(redis.call('get', KEYS[1]) or '0')
if free < tonumber(ARGV[1]) then
    return -1 - free
end
redis.call('set', KEYS[3], ARGV[1], 'px', ARGV[2])
return redis.call('decrby', KEYS[1], ARGV[1])
