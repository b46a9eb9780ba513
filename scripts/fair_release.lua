-- SPDX-License-Identifier: MIT
-- Give back the caller's hold of the fair lock, or lower its count, or give up its place in the queue.
--
-- KEYS     as in fair_queue.inc
-- ARGV[1]  field `U:n` of the caller       ARGV[2]  count to be left, 0 to 2^31-1
-- ARGV[3]  place `U:k` of the caller
-- ARGV[4]  absent or 'publish'; 'spublish' where the fleet uses sharded channels
-- Returns 1 freed, and passed on to the head of the queue; 2 freed, and that was refused; 0 still held; -14 the caller
-- has no hold here, and with a count of 0 no place in the queue any more; a lock that is free, and whose head that was,
-- has been passed on.
--
-- May be repeated and may come late: the count only falls, and n is never used again, so it cannot hurt a newer hold,
-- nor a newer wait at the same place. Any other field of the lock is another's hold and stays. Constant work for any
-- number of waiters, but for giving up a place that is neither first nor last: that is looked for along the queue.

-- include arguments.inc
-- include holds.inc
-- include fair_queue.inc

local field, left, place, publish = ARGV[1], ARGV[2], ARGV[3], ARGV[4] or 'publish'

local wrong = bad_publish(publish) or bad_left(left)
if wrong then
    return wrong
end
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

local head = call('lindex', queue, 0)
if call('hdel', lock, field, field .. ':wanted') > 0 then -- a waiter of another type marks it
    return head and freed(publish) or 1
end
local waiting = select(6, sign_of(place))
if waiting == field or (not waiting and head == place) then
    leave(place, call('lindex', queue, -1) == place and -1 or 1)
    local said = head == place and pass_on(publish)
    return type(said) == 'table' and said or -14
end
return -14
