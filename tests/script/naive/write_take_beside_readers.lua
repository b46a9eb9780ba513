-- SPDX-License-Identifier: MIT
-- Planted: a writer that looks for another writer, and not for readers.
local held = redis.call('hget', KEYS[1], ARGV[1])
if not held and redis.call('hget', KEYS[1], 'mode') == 'write' then
    return redis.call('pttl', KEYS[1])
end
redis.call('hset', KEYS[1], 'mode', 'write', ARGV[1], ARGV[2])
if redis.call('pttl', KEYS[1]) < tonumber(ARGV[3]) then
    redis.call('pexpire', KEYS[1], ARGV[3])
end
return held and -11 or -10
