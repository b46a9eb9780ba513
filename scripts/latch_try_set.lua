-- Set the count of an open latch.
--
-- KEYS[1]  the count, a string             KEYS[2]  the latch's channel
-- KEYS[3]  the guard of this request       KEYS[4]  a guard that is done with, or absent
-- ARGV[1]  count, 1 to 2^31-1              ARGV[2]  how long the guard is kept, in ms
-- ARGV[3]  absent or 'publish'; 'spublish' where the fleet uses sharded channels
-- Returns 1 set, and `1` published; 0 it was set already.
--
-- May be repeated and may come late: the guard keeps the answer.
local publish, channel = ARGV[3] or 'publish', KEYS[2]

-- include publishes.inc
-- include wanted.inc
-- include once.inc
-- include guard.inc
local message = 1
-- include try_set.inc
