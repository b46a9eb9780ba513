-- Take permits of the semaphore, or confirm that this request has taken them.
--
-- KEYS[1]  the free permits, a string      KEYS[2]  the semaphore's channel
-- KEYS[3]  the guard of this request       KEYS[4], KEYS[5]  of a fair one: queue and signs of life
-- KEYS[4], or KEYS[6]  a guard that is done with, or absent
-- ARGV[1]  permits, 1 to 2^31-1            ARGV[2]  how long the guard is kept, in ms
-- ARGV[3]  absent or 'publish'; 'spublish' where the fleet uses sharded channels
-- ARGV[4]  of a fair one: the caller's place in the queue         ARGV[5]  '1': to be kept if it is refused
-- Returns how many are left, 0 or more, when taken; otherwise -1 - free, or -1 when it is another's turn.
--
-- May be repeated and may come late: the guard tells that it was carried out, or undone, and then nothing is taken.
-- Without a queue, taking costs four commands, a refusal two.
local publish, channel = ARGV[3] or 'publish', KEYS[2]

-- include publishes.inc
-- include wanted.inc
-- include guarded.inc
-- include guard.inc
local queue, signs = #KEYS >= 5 and KEYS[4], KEYS[5]
local place, queues = ARGV[4], ARGV[5] == '1'
local free = count

if done then
    return math.max(0, free)
end
-- include queue.inc
if free < wanted or not my_turn then
    keep_place()
    if dropped and not my_turn then
        -- include publish_free.inc
    end
    return my_turn and -1 - math.max(0, free) or -1
end
call('set', guard, ARGV[1], 'px', keep)
free = call('decrby', key, ARGV[1])
if leave_queue() then
    -- include publish_free.inc
end
return free
