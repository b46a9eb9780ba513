-- Give permits back to the semaphore, or change how many there are.
--
-- KEYS[1]  the free permits, a string      KEYS[2]  the semaphore's channel
-- KEYS[3]  the guard of this request       KEYS[4]  a guard that is done with, or absent
-- ARGV[1]  how many more, -(2^31-1) to 2^31-1, not 0              ARGV[2]  how long the guard is kept, in ms
-- ARGV[3]  absent or 'publish'; 'spublish' where the fleet uses sharded channels
-- Returns 0, and has published the total if that is above 0.
--
-- May be repeated and may come late: the guard tells that it was carried out.
local publish, channel = ARGV[3] or 'publish', KEYS[2]

-- include publishes.inc
if not string.find(ARGV[1], '^-?[1-9]%d*$') or math.abs(tonumber(ARGV[1])) > 2147483647 then
    return redis.error_reply('ERR redlatch: permits must be a whole number from -2147483647 to 2147483647, not 0')
end
-- include guarded.inc
-- include guard.inc
if done then
    return 0
end
local free = call('incrby', key, ARGV[1])
call('set', guard, '1', 'px', keep)
-- include publish_free.inc
return 0
