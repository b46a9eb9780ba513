-- SPDX-License-Identifier: MIT
-- Planted: a nested release that sets the time to live, ARGV[4], as Redisson's does.
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
    return -14
end
if ARGV[2] == '0' then
    redis.call('del', KEYS[1])
    redis.call('publish', KEYS[2], '0')
    return 1
end
redis.call('hset', KEYS[1], ARGV[1], ARGV[2])
redis.call('pexpire', KEYS[1], ARGV[4])
return 0
