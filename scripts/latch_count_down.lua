-- Count the latch down by one. At 0 it is open, and gone.
--
-- KEYS[1]  the count, a string             KEYS[2]  the latch's channel
-- KEYS[3]  the guard of this request       KEYS[4]  a guard that is done with, or absent
-- ARGV[1]  not looked at                   ARGV[2]  how long the guard is kept, in ms
-- ARGV[3]  absent or 'publish'; 'spublish' where the fleet uses sharded channels
-- Returns the count left, 0 or more; `0` was published when this one has opened it.
--
-- May be repeated and may come late: the guard keeps the answer. It goes if the count cannot be lowered; a latch is opened
-- even without it, since that can be done twice. The message comes before all: where it is refused nothing is done.
local publish, channel = ARGV[3] or 'publish', KEYS[2]

-- include publishes.inc
-- include once.inc
-- include guard.inc
if done then
    return tonumber(done)
end
local left = math.max(0, count - 1)
if left > 0 then
    call('set', guard, string.format('%.0f', left), 'px', keep)
    local by = 'decr'
    local free = redis.pcall(by, key)
    -- include counted.inc
    return left
end
if count == 1 then
    call(publish, channel, '0')
end
call('del', key) -- a full server lets a script begin with it, and go on
redis.pcall('set', guard, '0', 'px', keep)
return 0
