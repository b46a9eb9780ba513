-- SPDX-License-Identifier: MIT
-- Free the simple lock from the holder that was seen, whoever asks, and tell that holder's client; a holder that
-- came since is left alone.
--
-- KEYS[1]  the lock, a string              KEYS[2]  the lock's channel
-- ARGV[1]  the value that was seen         ARGV[2]  absent or 'publish'; 'spublish' as in release
-- Returns 1 freed, and `0` published; 2 the same, and to tell was refused; 0 that holder is gone.

-- include arguments.inc
-- include evicted.inc

local publish = ARGV[2] or 'publish'

local wrong = bad_publish(publish)
if wrong then
    return wrong
end
if redis.call('get', KEYS[1]) ~= ARGV[1] then
    return 0
end
redis.call('del', KEYS[1])
tell_evicted(ARGV[1])
return type(redis.pcall(publish, KEYS[2], '0')) == 'table' and 2 or 1
