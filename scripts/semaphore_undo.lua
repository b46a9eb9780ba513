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
local publish, channel = ARGV[3] or 'publish', KEYS[2]

-- include publishes.inc
-- include once.inc
-- include guard.inc
local queue, signs = #KEYS >= 5 and KEYS[4], KEYS[5]
local place, queues, life = ARGV[4], true, 0
local leaves = ARGV[5] == '1'
local back = math.min(tonumber(done or '0'), math.max(0, 2147483647 - count)) -- others may give back what was not taken
local free = count + back

-- include queue.inc
if leaves and leave_queue() or back > 0 or dropped then
    local call = redis.pcall -- nobody is told of an undo: where the message is refused it gives back all the same
    -- include publish_free.inc
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
