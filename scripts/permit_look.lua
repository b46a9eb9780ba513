-- SPDX-License-Identifier: MIT
-- How many permits are free, and how many are taken.
--
-- KEYS[1]  the free permits, a string      KEYS[2]  the taken ones, a sorted set: id by the moment at which it expires
-- KEYS[3]  the semaphore's channel         ARGV[1]  'publish' or 'spublish'
-- Returns {free, taken}. Expired permits have returned before, and the total was published if there were any.

-- include arguments.inc
-- include counts.inc
-- include permits.inc

local publish = ARGV[1]

local wrong, free, returned = return_expired(begin(bad_publish(publish)))
if wrong then
    return wrong
end
if returned > 0 then
    tell_total(redis.call, publish, KEYS[3], free)
end
return {free, redis.call('zcard', taken)}
