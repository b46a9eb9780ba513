-- Take all free permits of the semaphore.
--
-- KEYS[1]  the free permits, a string      KEYS[2]  the semaphore's channel
-- KEYS[3]  the guard of this request       KEYS[4]  a guard that is done with, or absent
-- ARGV[1]  not looked at                   ARGV[2]  how long the guard is kept, in ms
-- Returns how many were taken, 0 or more.
--
-- May be repeated and may come late: the guard keeps the answer.
-- include once.inc
-- include guard.inc
if done then
    return tonumber(done)
end
local taken = math.min(math.max(0, count), 2147483647) -- no more than can be given back at once
call('set', guard, string.format('%.0f', taken), 'px', keep)
if taken > 0 then
    local by = 'decrby'
    local free = redis.pcall(by, key, string.format('%.0f', taken))
    -- include counted.inc
end
return taken
