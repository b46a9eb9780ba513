-- SPDX-License-Identifier: MIT
-- Planted: a repeat sets again, over what others have said since.
local free = tonumber(redis.call('get', KEYS[1]) or '0')
free = redis.call('incrby', KEYS[1], tonumber(ARGV[2]) - redis.call('zcard', KEYS[2]) - free)
redis.call('set', KEYS[4], '1', 'px', ARGV[3])
if free > 0 then
    redis.call('publish', KEYS[3], string.format('%.0f', free))
end
return 0
