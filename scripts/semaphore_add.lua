-- SPDX-License-Identifier: MIT
-- Give permits back to the semaphore, or change how many there are.
--
-- KEYS[1]  the free permits, a string      KEYS[2]  the semaphore's channel
-- KEYS[3]  the guard of this request       KEYS[4]  a guard that is done with, or absent
-- ARGV[1]  how many more, -(2^31-1) to 2^31-1, not 0              ARGV[2]  how long the guard is kept, in ms
-- ARGV[3]  absent or 'publish'; 'spublish' where the fleet uses sharded channels
-- Returns 0, and has published the total if that is above 0; 16 + h where h have heard it. There are at most 2^31-1
-- then, which is what Java can read: else it is an error.
--
-- May be repeated and may come late: the guard tells that it was carried out. The message goes first: where it is
-- refused nothing may have been given back, because who is told of an error may do it again.

-- include arguments.inc
-- include counts.inc

local publish, more = ARGV[3] or 'publish', ARGV[1]
local guard, keep, done_with = KEYS[3], ARGV[2], #KEYS % 2 == 0 and KEYS[#KEYS]

local bad = bad_publish(publish)
if not bad and (not string.find(more, '^-?[1-9]%d*$') or math.abs(tonumber(more)) > 2147483647) then
    bad = redis.error_reply('ERR redlatch: permits must be a whole number from -2147483647 to 2147483647, not 0')
end
local wrong, count, done = begin(bad, guard, keep, done_with)
if wrong or done then
    return wrong or 0
end
more = tonumber(more)
if more > 0 and count + more > 2147483647 or more < 0 and count + more < -2147483647 then
    return redis.error_reply('ERR redlatch: a semaphore has at most 2147483647 permits, and at least -2147483647')
end
local heard = tell_total(redis.call, publish, KEYS[2], count + more)
local said = change(guard, '1', keep, 'incrby', KEYS[1], ARGV[1])
return type(said) == 'table' and said or heard > 0 and 16 + heard or 0
