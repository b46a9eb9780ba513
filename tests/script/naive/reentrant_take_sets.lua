-- SPDX-License-Identifier: MIT
-- Planted: a take that writes what it is told, so that a late one lowers count and time to live.
if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[1]) == 1 then
    redis.call('hset', KEYS[1], ARGV[1], ARGV[2])
    redis.call('pexpire', KEYS[1], ARGV[3])
    return -10
end
return redis.call('pttl', KEYS[1])
