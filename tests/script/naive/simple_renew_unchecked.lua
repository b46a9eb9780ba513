-- SPDX-License-Identifier: MIT
-- Planted: a renewal that does not look whose value it is.
local now = redis.call('time')
local before = redis.call('pttl', KEYS[1])
if before == -2 then
    return {tonumber(now[1]), tonumber(now[2]), -14}
end
if before < tonumber(ARGV[2]) then
    redis.call('pexpire', KEYS[1], ARGV[2])
end
return {tonumber(now[1]), tonumber(now[2]), before}
