-- Give back permits by their ids: all of them or none.
--
-- KEYS[1]  the free permits, a string      KEYS[2]  the taken ones, a sorted set: id by the moment at which it expires
-- KEYS[3]  the semaphore's channel
-- ARGV[1]  'publish' or 'spublish'         ARGV[2..]  the ids, none twice
-- Returns 1 given back, and the total published; 0 none of them is taken: expired, given back, or never taken; -14 some are not.
--
-- May be repeated and may come late: ids are never used again. A repeat that finds some of them knows that the first did nothing.
local publish, channel, from = ARGV[1], KEYS[3], 2

-- include publishes.inc
-- include ids.inc
-- include returned.inc
local all, some, seen = true, false, {}

for i = 1, #ids do
    local there = not seen[ids[i]] and call('zscore', taken, ids[i])
    all, some = all and there, some or there
    seen[ids[i]] = true
end
if all then
    call('zrem', taken, unpack(ids))
    free = call('incrby', key, #ids)
end
if all or returned > 0 then
    -- include publish_free.inc
end
return all and 1 or some and -14 or 0
