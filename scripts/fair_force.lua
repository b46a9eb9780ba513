-- Free the fair lock from the holder that was seen, whoever asks; a holder that came since is left alone.
--
-- KEYS     as in fair_queue.inc
-- ARGV[1]  the field that was seen         ARGV[2]  absent or 'publish'; 'spublish' as in release
-- Returns 1 freed, and passed on to the head of the queue; 2 freed, and that was refused; 0 that holder is gone.
local publish = ARGV[2] or 'publish'

-- include publishes.inc
-- include fair_queue.inc

local key = lock
-- include other_type.inc
if call('hexists', lock, ARGV[1]) == 0 then
    return 0
end
local head = call('lindex', queue, 0)
call('del', lock)
return head and freed() or 1
