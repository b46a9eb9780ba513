-- Give back the caller's read hold of a read-write lock, or lower its count.
--
-- KEYS[1]  the lock, a hash                KEYS[2]  the lock's channel
-- ARGV[1]  field `U:n` of the caller       ARGV[2]  count to be left, 0 to 2^31-1
-- ARGV[3]  absent or 'publish'; 'spublish' where the fleet uses sharded channels
-- Returns 1 freed, and `0` published; 0 still held, by the caller or by others; -14 the caller has no hold here.
--
-- While others read, the lock lives as long as the longest of their holds; readers that died are not counted, so the last one
-- alive frees the lock. It lives so long already, unless the caller's own hold was longer than that of everybody else: so in a
-- crowd one that is no shorter is looked for, which is the first where those who came first leave first; only if there is none,
-- the longest.
-- While the caller writes, the time to live is the writer's and stays.
-- May be repeated and may come late: the count only falls, and n is never used again.
local call, key, field, left, publish = redis.call, KEYS[1], ARGV[1], ARGV[2], ARGV[3] or 'publish'

-- include publishes.inc
-- include left.inc

-- include longest.inc

local held = call('hget', key, field)
if not held then
    return -14
end
local prefix = (string.find(key, '{', 1, true) and key or '{' .. key .. '}') .. ':'
local timeout = prefix .. field .. ':rwlock_timeout:'
local others, own = {} -- the fields that are left, the mode among them; in a crowd, how long the caller's hold would have lasted
if left ~= '0' then
    if (tonumber(held) or 0) > tonumber(left) then
        call('hset', key, field, left)
    end
else
    call('hdel', key, field)
    others = call('hkeys', key)
    own = #others > 8 and math.max(1, call('pttl', timeout .. '1'))
end
for i = tonumber(left) + 1, tonumber(held) or 0 do
    call('del', timeout .. string.format('%.0f', i))
end
if left ~= '0' or #others > 1 and call('hget', key, 'mode') == 'write' then
    return 0
end

for i = own and #others or 0, 1, -1 do -- the youngest first: small hashes are in order
    if call('pttl', prefix .. others[i] .. ':rwlock_timeout:1') >= own then
        return 0
    end
end
local most = #others > 1 and longest() or 0
if most > 0 then
    call('pexpire', key, string.format('%.0f', most))
    return 0
end
call('del', key)
call(publish, KEYS[2], '0')
return 1
