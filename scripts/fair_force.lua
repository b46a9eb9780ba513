-- SPDX-License-Identifier: MIT
-- Free the fair lock from the holder that was seen, whoever asks, and tell that holder's client; a holder that
-- came since is left alone.
--
-- KEYS     as in fair_queue.inc
-- ARGV[1]  the field that was seen         ARGV[2]  absent or 'publish'; 'spublish' as in release
-- Returns 1 freed, and passed on to the head of the queue; 2 freed, and that was refused; 0 that holder is gone.

-- include arguments.inc
-- include holds.inc
-- include fair_queue.inc
-- include evicted.inc

local publish = ARGV[2] or 'publish'

local wrong = bad_publish(publish) or other_type(call('hget', lock, 'mode'))
if wrong then
    return wrong
end
if call('hexists', lock, ARGV[1]) == 0 then
    return 0
end
local head = call('lindex', queue, 0)
call('del', lock)
tell_evicted(ARGV[1])
return head and freed(publish) or 1
