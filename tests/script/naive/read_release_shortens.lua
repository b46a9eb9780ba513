-- SPDX-License-Identifier: MIT
-- Planted: a read release that sets the lock's time to live to the reader's, though the reader writes as well.
local field, left = ARGV[1], tonumber(ARGV[2])
local held = redis.call('hget', KEYS[1], field)
local timeout = '{' .. KEYS[1] .. '}:' .. field .. ':rwlock_timeout:'
if not held then
    return -14
end
for i = left + 1, tonumber(held) do
    redis.call('del', timeout .. i)
end
if left > 0 then
    redis.call('hset', KEYS[1], field, ARGV[2])
    redis.call('pexpire', KEYS[1], redis.call('pttl', timeout .. '1'))
    return 0
end
redis.call('hdel', KEYS[1], field)
if redis.call('hlen', KEYS[1]) > 1 then
    return 0
end
redis.call('del', KEYS[1])
redis.call('publish', KEYS[2], '0')
return 1
