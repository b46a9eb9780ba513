-- SPDX-License-Identifier: MIT
-- Planted: a reader that no mark of a waiting writer keeps out.
local mode, field = redis.call('hget', KEYS[1], 'mode'), ARGV[1]
local held = redis.call('hget', KEYS[1], field)
if mode == 'write' then
    return redis.call('pttl', KEYS[1])
end
redis.call('hset', KEYS[1], 'mode', 'read', field, ARGV[2])
redis.call('set', '{' .. KEYS[1] .. '}:' .. field .. ':rwlock_timeout:1', '1', 'px', ARGV[3])
if redis.call('pttl', KEYS[1]) < tonumber(ARGV[3]) then
    redis.call('pexpire', KEYS[1], ARGV[3])
end
return held and -11 or -10
