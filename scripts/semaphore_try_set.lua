-- SPDX-License-Identifier: MIT
-- Say how many permits there are, unless somebody has.
--
-- KEYS[1]  the free permits, a string      KEYS[2]  the semaphore's channel
-- KEYS[3]  the guard of this request       KEYS[4]  a guard that is done with, or absent
-- ARGV[1]  permits, 0 to 2^31-1            ARGV[2]  how long the guard is kept, in ms
-- ARGV[3]  absent or 'publish'; 'spublish' where the fleet uses sharded channels
-- Returns 1 done, and the number published if that is above 0; 0 somebody has said it before.
--
-- May be repeated and may come late: the guard keeps the answer.

-- include arguments.inc
-- include counts.inc

local publish = ARGV[3] or 'publish'

return try_set(bad_publish(publish) or bad_permits(ARGV[1]), publish, tonumber(ARGV[1]))
