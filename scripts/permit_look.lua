-- How many permits are free, and how many are taken.
--
-- KEYS[1]  the free permits, a string      KEYS[2]  the taken ones, a sorted set: id by the moment at which it expires
-- KEYS[3]  the semaphore's channel         ARGV[1]  'publish' or 'spublish'
-- Returns {free, taken}. Expired permits have returned before, and the total was published if there were any.
local publish, channel = ARGV[1], KEYS[3]

-- include publishes.inc
-- include returned.inc
if returned > 0 then
    -- include publish_free.inc
end
return {free, call('zcard', taken)}
