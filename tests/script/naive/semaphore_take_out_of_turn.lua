-- SPDX-License-Identifier: MIT
-- Planted: a take that stands in the queue when there are too few, and does not look at it when there are enough.
local call, free = redis.call, tonumber(redis.call('get', KEYS[1]) or '0')
local now = call('time')
if call('get', KEYS[3]) then
    return free
end
if free < tonumber(ARGV[1]) then
    call('zadd', KEYS[4], 'nx', string.format('%.0f', now[1] * 1000000 + now[2]), ARGV[4])
    call('hset', KEYS[5], ARGV[4], string.format('%.0f', now[1] * 1000 + math.floor(now[2] / 1000) + 15000))
    call('pexpire', KEYS[4], 3600000)
    call('pexpire', KEYS[5], 3600000)
    return -1 - free
end
call('set', KEYS[3], ARGV[1], 'px', ARGV[2])
call('zrem', KEYS[4], ARGV[4])
call('hdel', KEYS[5], ARGV[4])
return call('decrby', KEYS[1], ARGV[1])
