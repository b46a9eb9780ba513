-- SPDX-License-Identifier: MIT
-- Planted: a nested take that finds no hold makes one.
local ttl = redis.call('pttl', KEYS[1])
local held = redis.call('hget', KEYS[1], ARGV[1])
if ttl ~= -2 and not held then
    return ARGV[2] == '1' and ttl or -12
end
if not held or tonumber(held) < tonumber(ARGV[2]) then
    redis.call('hset', KEYS[1], ARGV[1], ARGV[2])
end
if ttl < tonumber(ARGV[3]) then
    redis.call('pexpire', KEYS[1], ARGV[3])
end
return held and -11 or -10
