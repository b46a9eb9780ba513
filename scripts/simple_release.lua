-- SPDX-License-Identifier: MIT
-- Give back the caller's hold of the simple lock.
--
-- KEYS[1]  the lock, a string              KEYS[2]  the lock's channel
-- ARGV[1]  value of the caller             ARGV[2]  count to be left, always 0: the lock is not re-entrant
-- ARGV[3]  absent or 'publish'; 'spublish' where the fleet uses sharded channels
-- Returns 1 freed, and `0` published, which nobody has heard; 16 + h the same, and h have; 2 freed, and to tell was
-- refused; -14 the caller has no hold here.
--
-- May be repeated and may come late: a value is never used again, so it cannot hurt a newer hold.

-- include arguments.inc

local publish = ARGV[3] or 'publish'

local wrong = bad_publish(publish)
if wrong then
    return wrong
end
if ARGV[2] ~= '0' then
    return redis.error_reply('ERR redlatch: count left must be 0')
end
if redis.call('get', KEYS[1]) ~= ARGV[1] then
    return -14
end
redis.call('del', KEYS[1])
local heard = redis.pcall(publish, KEYS[2], '0')
return type(heard) == 'table' and 2 or heard > 0 and 16 + heard or 1
