-- SPDX-License-Identifier: MIT
-- Planted: each of a reader's counts lives as long as it was asked for, so that what is left when the longest is given
-- back ends before its owner thinks.
local field = ARGV[1]
local held = redis.call('hget', KEYS[1], field)
if redis.call('hget', KEYS[1], 'mode') == 'write' and not ARGV[5] then
    return redis.call('pttl', KEYS[1])
end
if redis.call('exists', KEYS[1]) == 0 then
    redis.call('hset', KEYS[1], 'mode', 'read')
end
redis.call('hset', KEYS[1], field, ARGV[2])
redis.call('set', '{' .. KEYS[1] .. '}:' .. field .. ':rwlock_timeout:' .. ARGV[2], '1', 'px', ARGV[3])
if redis.call('pttl', KEYS[1]) < tonumber(ARGV[3]) then
    redis.call('pexpire', KEYS[1], ARGV[3])
end
return held and -11 or -10
