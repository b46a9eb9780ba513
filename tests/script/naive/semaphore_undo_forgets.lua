-- SPDX-License-Identifier: MIT
-- Planted: an undo that leaves nothing behind, so that a take that comes later takes.
local back = tonumber(redis.call('get', KEYS[3]) or '0')
if back > 0 then
    redis.call('incrby', KEYS[1], back)
    redis.call('del', KEYS[3])
end
return back
