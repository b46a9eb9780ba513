-- SPDX-License-Identifier: MIT
-- Give back the caller's write hold of a read-write lock, or lower its count, or take its mark away.
--
-- KEYS[1]  the lock, a hash                KEYS[2]  the lock's channel
-- KEYS[3]  the marks of writers that wait (readwrite.inc); absent: the caller has left none
-- ARGV[1]  field `U:n:write` of the caller ARGV[2]  count to be left, 0 to 2^31-1
-- ARGV[3]  absent or 'publish'; 'spublish' where the fleet uses sharded channels
-- Returns 1 given back, and `1` and `0` published, which nobody has heard; 16 + h the same, and h have; 2 given back,
-- and to tell was refused; 0 still held; -14 the caller has no hold here, and with a count of 0 no mark any more.
--
-- A writer that reads as well goes on reading: the mode becomes `read`, the time to live that of the longest read hold,
-- and the messages let other readers in. Otherwise the lock is free. `1` wakes all of a Java process, but only those
-- asleep already; `0` is kept for one that is about to sleep. Who takes away the last mark that kept readers out
-- publishes `2`, which peers ignore. May be repeated and may come late: the count only falls, and n is never used
-- again. The caller's field goes last, or with the lock, so that a repeat goes on where a first one was refused.

-- include arguments.inc
-- include readwrite.inc

local call, key, marks, field, left, publish = redis.call, KEYS[1], KEYS[3], ARGV[1], ARGV[2], ARGV[3] or 'publish'

local wrong = bad_publish(publish) or bad_left(left)
if wrong then
    return wrong
end

local held = call('hget', key, field)
if not held then
    if marks and left == '0' and call('zrem', marks, field) == 1 and preferred_ms(marks) == 0 then
        redis.pcall(publish, KEYS[2], '2')
    end
    return -14
end
if left ~= '0' then
    if (tonumber(held) or 0) > tonumber(left) then
        call('hset', key, field, left)
    end
    return 0
end

local most = longest(key, field)
if most > 0 then
    -- a full server lets a script go on that has begun so, and not with HSET
    call('pexpire', key, string.format('%.0f', most))
    call('hset', key, 'mode', 'read')
    call('hdel', key, field)
else
    call('del', key)
end
redis.pcall(publish, KEYS[2], '1')
local heard = redis.pcall(publish, KEYS[2], '0')
return type(heard) == 'table' and 2 or heard > 0 and 16 + heard or 1
