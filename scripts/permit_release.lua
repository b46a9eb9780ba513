-- Give back permits by their ids: all of them or none.
--
-- KEYS[1]  the free permits, a string      KEYS[2]  the taken ones, a sorted set: id by the moment at which it expires
-- KEYS[3]  the semaphore's channel
-- ARGV[1]  'publish' or 'spublish'         ARGV[2..]  the ids, none twice
-- Returns 1 given back, and the total published; -14 one of them is not taken: expired, given back, or never taken.
--
-- May be repeated and may come late: ids are never used again.
local publish, channel, from = ARGV[1], KEYS[3], 2

-- include publishes.inc
-- include ids.inc
-- include returned.inc
local all, seen = true, {}

for i = 1, #ids do
    all = all and not seen[ids[i]] and call('zscore', taken, ids[i])
    seen[ids[i]] = true
end
if all then
    call('zrem', taken, unpack(ids))
    free = call('incrby', key, #ids)
end
if all or returned > 0 then
    -- include publish_free.inc
end
return all and 1 or -14
