-- SPDX-License-Identifier: MIT
-- Planted: a renewal that sets the time to live, whatever it is.
local now = redis.call('time')
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
    return {tonumber(now[1]), tonumber(now[2]), -14}
end
local before = redis.call('pttl', KEYS[1])
redis.call('pexpire', KEYS[1], ARGV[2])
return {tonumber(now[1]), tonumber(now[2]), before}
