-- SPDX-License-Identifier: MIT
-- Take permits of the semaphore, or confirm that this request has taken them.
--
-- KEYS[1]  the free permits, a string      KEYS[2]  the semaphore's channel
-- KEYS[3]  the guard of this request       KEYS[4], KEYS[5]  of a fair one: queue and signs of life
-- KEYS[4], or KEYS[6]  a guard that is done with, or absent
-- ARGV[1]  permits, 1 to 2^31-1            ARGV[2]  how long the guard is kept, in ms
-- ARGV[3]  absent or 'publish'; 'spublish' where the fleet uses sharded channels
-- ARGV[4]  of a fair one: the caller's place in the queue         ARGV[5]  how long it counts
--          as alive from now, in ms, up to 3600000, if it is refused; '0': it is not kept
-- Returns how many are left, 0 or more, when taken; otherwise -1 - free, or -1 when it is another's turn.
--
-- May be repeated and may come late: the guard tells that it was carried out, or undone, and then nothing is taken.
-- Without a queue, taking costs four commands, a refusal two.

-- include arguments.inc
-- include counts.inc
-- include turns.inc

local publish, wanted, place, life = ARGV[3] or 'publish', ARGV[1], ARGV[4], ARGV[5]
local guard, keep, done_with = KEYS[3], ARGV[2], #KEYS % 2 == 0 and KEYS[#KEYS]

local bad = bad_publish(publish) or bad_wanted(wanted) or bad_stay(life)
local wrong, count, done = begin(bad, guard, keep, done_with)
if wrong or done then
    return wrong or math.max(0, count)
end
local my_turn, dropped = turn(place, life ~= '0')
if count < tonumber(wanted) or not my_turn then
    local refused = keep_place(place, life)
    if dropped and not my_turn then
        tell_total(redis.call, publish, KEYS[2], count)
    end
    return refused or my_turn and -1 - math.max(0, count) or -1
end
if leave_queue(place) then -- what may be refused comes first: behind the count it would be refused of what is taken
    tell_total(redis.call, publish, KEYS[2], count - wanted)
end
return change(guard, wanted, keep, 'decrby', KEYS[1], wanted)
