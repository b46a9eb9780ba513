-- SPDX-License-Identifier: MIT
-- Give back what a take or drain has taken whose outcome its caller does not know, and see that it takes nothing later.
--
-- KEYS[1]  the free permits, a string      KEYS[2]  the semaphore's channel
-- KEYS[3]  the guard of that request       KEYS[4], KEYS[5]  of a fair one: queue and signs of life
-- ARGV[1]  not looked at                   ARGV[2]  how long the guard is kept, in ms
-- ARGV[3]  absent or 'publish'; 'spublish' where the fleet uses sharded channels
-- ARGV[4]  of a fair one: the caller's place in the queue         ARGV[5]  '1': it is left
-- Returns how many were given back.
--
-- May be repeated and may come late: the guard says '0' afterwards.

-- include arguments.inc
-- include counts.inc
-- include turns.inc

local call, publish, key = redis.call, ARGV[3] or 'publish', KEYS[1]
local guard, keep, done_with = KEYS[3], ARGV[2], #KEYS % 2 == 0 and KEYS[#KEYS]
local place, leaves = ARGV[4], ARGV[5] == '1'

local wrong, count, done = begin(bad_publish(publish), guard, keep, done_with)
if wrong then
    return wrong
end
local back = math.min(tonumber(done or '0'), math.max(0, 2147483647 - count)) -- others may give back what was not taken
local _, dropped = turn(place, true)
if leaves and leave_queue(place) or back > 0 or dropped then
    -- nobody is told of an undo: where the message is refused it gives back all the same
    tell_total(redis.pcall, publish, KEYS[2], count + back)
end
if back > 0 then
    call('del', guard) -- a full server lets a script go on that has begun to write, and DEL it lets begin
    local said = redis.pcall('incrby', key, string.format('%.0f', back))
    if type(said) == 'table' then
        redis.pcall('set', guard, done, 'px', keep)
        return redis.error_reply(said.err .. ' (incrby)')
    end
end
call('set', guard, '0', 'px', keep)
return back
