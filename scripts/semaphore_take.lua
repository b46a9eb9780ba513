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
local publish, channel = ARGV[3] or 'publish', KEYS[2]

-- include publishes.inc
-- include wanted.inc
if #KEYS >= 5 and (not string.find(ARGV[5], '^%d+$') or tonumber(ARGV[5]) > 3600000) then
    return redis.error_reply('ERR redlatch: a place counts as alive for a whole number of ms from 0 to 3600000')
end
-- include once.inc
-- include guard.inc
local queue, signs = #KEYS >= 5 and KEYS[4], KEYS[5]
local place, queues, life = ARGV[4], ARGV[5] ~= '0', tonumber(ARGV[5])
local free = count

if done then
    return math.max(0, free)
end
-- include queue.inc
if free < wanted or not my_turn then
    local refused = keep_place()
    if dropped and not my_turn then
        -- include publish_free.inc
    end
    return refused or my_turn and -1 - math.max(0, free) or -1
end
free = count - wanted
if leave_queue() then -- what may be refused comes first: behind the count it would be refused of what is taken
    -- include publish_free.inc
end
call('set', guard, ARGV[1], 'px', keep)
local by = 'decrby'
free = redis.pcall(by, key, ARGV[1])
-- include counted.inc
return free
