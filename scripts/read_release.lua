-- Give back the caller's read hold of a read-write lock, or lower its count.
--
-- KEYS[1]  the lock, a hash                KEYS[2]  the lock's channel
-- ARGV[1]  field `U:n` of the caller       ARGV[2]  count to be left, 0 to 2^31-1
-- ARGV[3]  absent or 'publish'; 'spublish' where the fleet uses sharded channels
-- Returns 1 freed, and `0` published; 0 still held, by the caller or by others; -14 the caller has no hold here.
--
-- While others read, the lock lives as long as the longest of their holds; readers that died are not counted, so the last one
-- alive frees the lock. While the caller writes, the time to live is the writer's and stays.
-- May be repeated and may come late: the count only falls, and n is never used again.
local call, key, field, left, publish = redis.call, KEYS[1], ARGV[1], ARGV[2], ARGV[3] or 'publish'

-- include publishes.inc
-- include left.inc

-- include longest.inc

local held = call('hget', key, field)
if not held then
    return -14
end
held = tonumber(held) or 0
local timeout = (string.find(key, '{', 1, true) and key or '{' .. key .. '}') .. ':' .. field .. ':rwlock_timeout:'
for i = tonumber(left) + 1, held do
    call('del', timeout .. string.format('%.0f', i))
end
if left ~= '0' then
    if held > tonumber(left) then
        call('hset', key, field, left)
    end
    return 0
end

call('hdel', key, field)
if call('hget', key, 'mode') == 'write' then
    return 0
end
local most = longest()
if most > 0 then
    call('pexpire', key, string.format('%.0f', most))
    return 0
end
call('del', key)
call(publish, KEYS[2], '0')
return 1
