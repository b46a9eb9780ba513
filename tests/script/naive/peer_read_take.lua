-- SPDX-License-Identifier: MIT
-- Planted: the read end, as another implementation takes it: it knows neither marks nor what clients keep, and tells
-- nobody that it waits. KEYS and ARGV as in read_take.
local key, field, lease = KEYS[1], ARGV[1], ARGV[3]
local left = redis.call('pttl', key)
if redis.call('hget', key, 'mode') == 'write' then
    return left
end
redis.call('hset', key, 'mode', 'read')
local count = redis.call('hincrby', key, field, 1)
redis.call('set', '{' .. key .. '}:' .. field .. ':rwlock_timeout:' .. count, '1', 'px', lease)
redis.call('pexpire', key, string.format('%.0f', math.max(left, lease)))
return -10
