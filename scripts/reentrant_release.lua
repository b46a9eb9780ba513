-- SPDX-License-Identifier: MIT
-- Give back the caller's hold of the reentrant lock, or lower its count.
--
-- KEYS[1]  the lock, a hash                KEYS[2]  the lock's channel, and its line (line.inc)
-- ARGV[1]  field `U:n` of the caller       ARGV[2]  count to be left, 0 to 2^31-1
-- ARGV[3]  absent or 'publish'; 'spublish' where the fleet uses sharded channels
-- ARGV[4]  absent; 'stay': the caller's client still waits for the lock, and enters the line; 'leave': it does not wait
--          any more. It leaves the line, and if nobody will wake the next one, that one is woken; 'read': it does
--          not wait. If it is named as the ear and does not stand in the line, its name goes; 'back': it does not wait,
--          but is likely to come back at once, and enters the line where several stand there, and nobody else listens
-- Returns 1 freed, and `0` published; 2 the same, and to tell was refused; 3 freed, and the first in line was woken;
-- 4 freed, nobody stood in line, and `0` was heard by somebody; 5 as 3, and the client stands in line; 6 freed, and the
-- client, which still waits, was refused to enter the line: it is to try; 0 still held; -14 the caller has no hold
-- here.
--
-- May be repeated and may come late: the count only falls, and n is never used again, so it cannot hurt a newer hold.
-- Freeing takes the field away, and the hash goes with its last one. Any other field is another's hold and stays.
-- An unnested hold that nobody waits for costs two commands.

-- include arguments.inc

local key, line, field, left, publish = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3] or 'publish'

local wrong = bad_publish(publish)
if wrong then
    return wrong
end
if left == '0' then
    local gone = redis.call('hdel', key, field, field .. ':wanted')
    -- the line is read whether or not the hold has the mark
    local reads = ARGV[4] and ARGV[4] ~= 'back'
    if not reads and gone == 0 then
        return -14
    elseif not reads and gone == 1 then
        local heard = redis.pcall(publish, line, '0')
        return type(heard) == 'table' and 2 or heard > 0 and 4 or 1
    end
    -- included here: whom nobody waits for would pay for it
    -- include line.inc
    local client = ARGV[4] and client_of(field)
    local l = read_line(line, client)
    local told, heard
    if l and not reads then
        told, heard = tell_first(line, l, publish, client)
        if told then
            return told
        end
    end
    -- and here: who wakes the only one in line would
    -- include holds.inc
    -- include line_queue.inc
    if ARGV[4] == 'leave' then
        leave(redis.pcall, line, l, client)
        l = read_line(line, client)
    end
    if gone > 0 then
        local back = ARGV[4] == 'back' and l and (l.count or 0) > 1
        if back then
            heard = heard or redis.pcall(publish, line, '2')
            back = heard == 0
        end
        local stands = (ARGV[4] == 'stay' or back) and l and enter(line, l, client)
        told = tell_freed(line, l, publish, heard, back and stands)
        return back and stands and told == 3 and 5 or ARGV[4] == 'stay' and not stands and 6 or told
    end
    hand_on(key, line, publish)
    return -14
end

if not string.find(left, '^[1-9]%d*$') or tonumber(left) > 2147483647 then
    return redis.error_reply('ERR redlatch: count left must be a whole number from 0 to 2147483647')
end
local held = redis.call('hget', key, field)
if not held then
    return -14
end
if (tonumber(held) or 0) > tonumber(left) then
    redis.call('hset', key, field, left)
end
return 0
