-- SPDX-License-Identifier: MIT
-- Say how many permits there are in all, free and taken.
--
-- KEYS[1]  the free permits, a string      KEYS[2]  the taken ones, a sorted set: id by the moment at which it expires
-- KEYS[3]  the semaphore's channel
-- KEYS[4]  the guard of this request       KEYS[5]  a guard that is done with, or absent
-- ARGV[1]  'publish' or 'spublish'         ARGV[2]  permits, 0 to 2^31-1
-- ARGV[3]  how long the guard is kept, in ms
-- Returns 0, and has published how many are free if that is above 0.
--
-- May be repeated and may come late: the guard tells that it was carried out, and what others have set since then
-- stays.

-- include arguments.inc
-- include counts.inc
-- include permits.inc

local publish, permits, keep = ARGV[1], ARGV[2], ARGV[3]

local wrong, count, done = begin(bad_publish(publish) or bad_permits(permits), KEYS[4], keep, KEYS[5])
if wrong or done then
    return wrong or 0
end
local refused, free = return_expired(nil, count)
if refused then
    return refused
end
local more = tonumber(permits) - redis.call('zcard', taken) - free
tell_total(redis.call, publish, KEYS[3], free + more)
local said = change(KEYS[4], '1', keep, 'incrby', key, string.format('%.0f', more))
return type(said) == 'table' and said or 0
