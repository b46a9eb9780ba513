-- SPDX-License-Identifier: MIT
-- Free the reentrant lock from the holder that was seen, whoever asks, and tell that holder's client; a holder
-- that came since is left alone.
--
-- KEYS[1]  the lock, a hash                KEYS[2]  the lock's channel, and its line (line.inc)
-- ARGV[1]  the field that was seen         ARGV[2]  absent or 'publish'; 'spublish' as in release
-- Returns 1 or 3 freed, and told as by a release; 2 the same, and to tell was refused; 0 that holder is gone.

-- include arguments.inc
-- include holds.inc
-- include line.inc
-- include line_queue.inc
-- include evicted.inc
-- include recall.inc

local call, key, publish = redis.call, KEYS[1], ARGV[2] or 'publish'

local wrong = bad_publish(publish) or other_type(call('hget', key, 'mode'))
if wrong then
    return wrong
end
if call('hexists', key, ARGV[1]) == 0 then
    return 0
end
call('del', key)
tell_evicted(ARGV[1])
recall(key, {ARGV[1]}, true)
return tell_freed(KEYS[2], read_line(KEYS[2]), publish)
