-- SPDX-License-Identifier: MIT
-- Planted: a reader that any writer lets in.
local key, field = redis.call('exists', KEYS[1]) == 1, ARGV[1]
local held = redis.call('hget', KEYS[1], field)
if not key then
    redis.call('hset', KEYS[1], 'mode', 'read')
end
redis.call('hset', KEYS[1], field, ARGV[2])
for i = 1, tonumber(ARGV[2]) do
    redis.call('set', '{' .. KEYS[1] .. '}:' .. field .. ':rwlock_timeout:' .. i, '1', 'px', ARGV[3])
end
if redis.call('pttl', KEYS[1]) < tonumber(ARGV[3]) then
    redis.call('pexpire', KEYS[1], ARGV[3])
end
return held and -11 or -10
