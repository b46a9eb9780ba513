-- SPDX-License-Identifier: MIT
-- Planted: an undo that knows of permits, and of no queue.
local back = tonumber(redis.call('get', KEYS[3]) or '0')
redis.call('set', KEYS[3], '0', 'px', ARGV[2])
redis.call('incrby', KEYS[1], back)
return back
