-- Give back the caller's hold of the fair lock, or lower its count, or give up its place in the queue.
--
-- KEYS     as in fair_queue.inc
-- ARGV[1]  field `U:n` of the caller       ARGV[2]  count to be left, 0 to 2^31-1
-- ARGV[3]  absent or 'publish'; 'spublish' where the fleet uses sharded channels
-- Returns 1 freed, and `0` published to the head of the queue; 0 still held; -14 the caller has no hold here, and with a
-- count of 0 no place in the queue any more; a head that left it while the lock is free has named its successor.
--
-- May be repeated and may come late: the count only falls, and n is never used again, so it cannot hurt a newer hold.
-- Any other field of the lock is another's hold and stays. Constant work for any number of waiters; giving up a place finds
-- it by looking along the queue.
local field, left, publish = ARGV[1], ARGV[2], ARGV[3] or 'publish'

-- include publishes.inc
-- include left.inc
-- include fair_queue.inc

if left ~= '0' then
    local held = call('hget', lock, field)
    if not held then
        return -14
    end
    if (tonumber(held) or 0) > tonumber(left) then
        call('hset', lock, field, left)
    end
    return 0
end

local was_head = call('lindex', queue, 0) == field
if call('hdel', lock, field) == 1 then
    wake((first_living()))
    return 1
end
if was_head or call('hexists', waiters, field) == 1 then
    leave(field)
end
if was_head and call('exists', lock) == 0 then
    wake((first_living()))
end
return -14
