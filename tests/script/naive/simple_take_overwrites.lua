-- SPDX-License-Identifier: MIT
-- Planted: a repeated take that writes the value again, and with it the time to live.
local holder = redis.call('get', KEYS[1])
if not holder or holder == ARGV[1] then
    redis.call('set', KEYS[1], ARGV[1], 'px', ARGV[3])
    return holder and -11 or -10
end
return redis.call('pttl', KEYS[1])
