-- Give permits back to the semaphore, or change how many there are.
--
-- KEYS[1]  the free permits, a string      KEYS[2]  the semaphore's channel
-- KEYS[3]  the guard of this request       KEYS[4]  a guard that is done with, or absent
-- ARGV[1]  how many more, -(2^31-1) to 2^31-1, not 0              ARGV[2]  how long the guard is kept, in ms
-- ARGV[3]  absent or 'publish'; 'spublish' where the fleet uses sharded channels
-- Returns 0, and has published the total if that is above 0. There are at most 2^31-1 then, which is what Java can read: else it
-- is an error.
--
-- May be repeated and may come late: the guard tells that it was carried out. The message goes first: where it is refused
-- nothing may have been given back, because who is told of an error may do it again.
local publish, channel = ARGV[3] or 'publish', KEYS[2]

-- include publishes.inc
if not string.find(ARGV[1], '^-?[1-9]%d*$') or math.abs(tonumber(ARGV[1])) > 2147483647 then
    return redis.error_reply('ERR redlatch: permits must be a whole number from -2147483647 to 2147483647, not 0')
end
-- include once.inc
-- include guard.inc
if done then
    return 0
end
local more = tonumber(ARGV[1])
if more > 0 and count + more > 2147483647 or more < 0 and count + more < -2147483647 then
    return redis.error_reply('ERR redlatch: a semaphore has at most 2147483647 permits, and at least -2147483647')
end
local free, by = count + more, 'incrby'
-- include publish_free.inc
call('set', guard, '1', 'px', keep)
free = redis.pcall(by, key, ARGV[1])
-- include counted.inc
return 0
