-- SPDX-License-Identifier: MIT
-- Set the count of an open latch.
--
-- KEYS[1]  the count, a string             KEYS[2]  the latch's channel
-- KEYS[3]  the guard of this request       KEYS[4]  a guard that is done with, or absent
-- ARGV[1]  count, 1 to 2^31-1              ARGV[2]  how long the guard is kept, in ms
-- ARGV[3]  absent or 'publish'; 'spublish' where the fleet uses sharded channels
-- Returns 1 set, and `1` published; 0 it was set already.
--
-- May be repeated and may come late: the guard keeps the answer.

-- include arguments.inc
-- include counts.inc

local publish = ARGV[3] or 'publish'

return try_set(bad_publish(publish) or bad_wanted(ARGV[1]), publish, 1)
