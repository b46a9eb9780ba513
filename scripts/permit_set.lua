-- Say how many permits there are in all, free and taken.
--
-- KEYS[1]  the free permits, a string      KEYS[2]  the taken ones, a sorted set: id by the moment at which it expires
-- KEYS[3]  the semaphore's channel
-- KEYS[4]  the guard of this request       KEYS[5]  a guard that is done with, or absent
-- ARGV[1]  'publish' or 'spublish'         ARGV[2]  permits, 0 to 2^31-1         ARGV[3]  how long the guard is kept, in ms
-- Returns 0, and has published how many are free if that is above 0.
--
-- May be repeated and may come late: the guard tells that it was carried out, and what others have set since then stays.
local publish, channel, guard, done_with, keep = ARGV[1], KEYS[3], KEYS[4], KEYS[5], ARGV[3]

-- include publishes.inc
if not string.find(ARGV[2], '^%d+$') or tonumber(ARGV[2]) > 2147483647 then
    return redis.error_reply('ERR redlatch: permits must be a whole number from 0 to 2147483647')
end
-- include guard.inc
if done then
    return 0
end
-- include returned.inc
local more = tonumber(ARGV[2]) - call('zcard', taken) - free
free = free + more
-- include publish_free.inc
call('set', guard, '1', 'px', keep)
local by = 'incrby'
free = redis.pcall(by, key, string.format('%.0f', more))
-- include counted.inc
return 0
