-- SPDX-License-Identifier: MIT
-- Planted: an extension that sets a permit's end, also to an earlier one.
local time = redis.call('time')
if not redis.call('zscore', KEYS[2], ARGV[3]) then
    return -14
end
redis.call('zadd', KEYS[2], string.format('%.0f', time[1] * 1000 + ARGV[2]), ARGV[3])
return tonumber(ARGV[2])
