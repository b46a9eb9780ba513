-- SPDX-License-Identifier: MIT
-- Count the latch down by one. At 0 it is open, and gone.
--
-- KEYS[1]  the count, a string             KEYS[2]  the latch's channel
-- KEYS[3]  the guard of this request       KEYS[4]  a guard that is done with, or absent
-- ARGV[1]  not looked at                   ARGV[2]  how long the guard is kept, in ms
-- ARGV[3]  absent or 'publish'; 'spublish' where the fleet uses sharded channels
-- Returns the count left, 0 or more; `0` was published when this one has opened it.
--
-- May be repeated and may come late: the guard keeps the answer. It goes if the count cannot be lowered; a latch is
-- opened even without it, since that can be done twice. The message comes before all: where it is refused nothing is
-- done.

-- include arguments.inc
-- include counts.inc

local call, publish, key = redis.call, ARGV[3] or 'publish', KEYS[1]
local guard, keep, done_with = KEYS[3], ARGV[2], #KEYS % 2 == 0 and KEYS[#KEYS]

local wrong, count, done = begin(bad_publish(publish), guard, keep, done_with)
if wrong or done then
    return wrong or tonumber(done)
end
local left = math.max(0, count - 1)
if left > 0 then
    local said = change(guard, string.format('%.0f', left), keep, 'decr', key)
    return type(said) == 'table' and said or left
end
if count == 1 then
    call(publish, KEYS[2], '0')
end
call('del', key) -- a full server lets a script begin with it, and go on
redis.pcall('set', guard, '0', 'px', keep)
return 0
