-- Say how many permits there are, unless somebody has.
--
-- KEYS[1]  the free permits, a string      KEYS[2]  the semaphore's channel
-- KEYS[3]  the guard of this request       KEYS[4]  a guard that is done with, or absent
-- ARGV[1]  permits, 0 to 2^31-1            ARGV[2]  how long the guard is kept, in ms
-- ARGV[3]  absent or 'publish'; 'spublish' where the fleet uses sharded channels
-- Returns 1 done, and the number published if that is above 0; 0 somebody has said it before.
--
-- May be repeated and may come late: the guard keeps the answer.
local publish, channel = ARGV[3] or 'publish', KEYS[2]

-- include publishes.inc
if not string.find(ARGV[1], '^%d+$') or tonumber(ARGV[1]) > 2147483647 then
    return redis.error_reply('ERR redlatch: permits must be a whole number from 0 to 2147483647')
end
-- include once.inc
-- include guard.inc
local message = tonumber(ARGV[1])
-- include try_set.inc
