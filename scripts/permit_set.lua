-- Say how many permits there are in all, free and taken.
--
-- KEYS[1]  the free permits, a string      KEYS[2]  the taken ones, a sorted set: id by the moment at which it expires
-- KEYS[3]  the semaphore's channel
-- ARGV[1]  'publish' or 'spublish'         ARGV[2]  permits, 0 to 2^31-1
-- Returns 0, and has published how many are free if that is above 0.
--
-- May be repeated, and a late one sets what was asked for then.
local publish, channel = ARGV[1], KEYS[3]

-- include publishes.inc
if not string.find(ARGV[2], '^%d+$') or tonumber(ARGV[2]) > 2147483647 then
    return redis.error_reply('ERR redlatch: permits must be a whole number from 0 to 2147483647')
end
-- include returned.inc
local more = tonumber(ARGV[2]) - call('zcard', taken) - free
free = call('incrby', key, string.format('%.0f', more))
-- include publish_free.inc
return 0
