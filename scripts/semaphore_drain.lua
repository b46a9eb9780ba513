-- SPDX-License-Identifier: MIT
-- Take all free permits of the semaphore.
--
-- KEYS[1]  the free permits, a string      KEYS[2]  the semaphore's channel
-- KEYS[3]  the guard of this request       KEYS[4]  a guard that is done with, or absent
-- ARGV[1]  not looked at                   ARGV[2]  how long the guard is kept, in ms
-- Returns how many were taken, 0 or more.
--
-- May be repeated and may come late: the guard keeps the answer.

-- include counts.inc

local guard, keep, done_with = KEYS[3], ARGV[2], #KEYS % 2 == 0 and KEYS[#KEYS]

local wrong, count, done = begin(nil, guard, keep, done_with)
if wrong or done then
    return wrong or tonumber(done)
end
local taken = math.min(math.max(0, count), 2147483647) -- no more than can be given back at once
local text = string.format('%.0f', taken)
if taken > 0 then
    local said = change(guard, text, keep, 'decrby', KEYS[1], text)
    return type(said) == 'table' and said or taken
end
redis.call('set', guard, text, 'px', keep)
return taken
