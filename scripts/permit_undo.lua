-- Give back the permits of a take whose outcome its caller does not know.
--
-- KEYS[1]  the free permits, a string      KEYS[2]  the taken ones, a sorted set: id by the moment at which it expires
-- KEYS[3]  the semaphore's channel         KEYS[4], KEYS[5]  of a fair one: queue and signs of life
-- ARGV[1]  not looked at                   ARGV[2]  'publish' or 'spublish'
-- ARGV[3]  of a fair one: the caller's place in the queue         ARGV[4]  '1': it is left
-- ARGV[5..]  the ids
-- Returns how many were given back.
--
-- May be repeated and may come late: ids are never used again.
local publish, channel, from = ARGV[2], KEYS[3], 5

-- include publishes.inc
-- include ids.inc
-- include returned.inc
local queue, signs = #KEYS >= 5 and KEYS[4], KEYS[5]
local place, queues = ARGV[3], true
local leaves = ARGV[4] == '1'
local back = call('zrem', taken, unpack(ids))

-- include queue.inc
if back > 0 then
    free = call('incrby', key, back)
end
if leaves and leave_queue() or back > 0 or returned > 0 or dropped then
    -- include publish_free.inc
end
return back
