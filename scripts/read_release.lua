-- SPDX-License-Identifier: MIT
-- Give back the caller's read hold of a read-write lock, or lower its count.
--
-- KEYS[1]  the lock, a hash                KEYS[2]  the lock's channel
-- ARGV[1]  field `U:n` of the caller       ARGV[2]  count to be left, 0 to 2^31-1
-- ARGV[3]  absent or 'publish'; 'spublish' where the fleet uses sharded channels
-- Returns 1 freed, and `0` published; 2 the same, and to tell was refused; 0 still held, by the caller or by others;
-- -14 the caller has no hold here.
--
-- While others read, the lock lives as long as the longest of their holds; readers that died are not counted, so the
-- last one alive frees the lock. It lives so long already, unless the caller's own hold was longer than that of
-- everybody else: so in a crowd one that is no shorter is looked for, which is the first where those who came first
-- leave first; only if there is none, the longest. While the caller writes, the time to live is the writer's and stays.
-- May be repeated and may come late: the count only falls, and n is never used again. The caller's field goes last, or
-- with the lock, so that a repeat goes on where a first one was refused.

-- include arguments.inc
-- include readwrite.inc

local call, key, field, left, publish = redis.call, KEYS[1], ARGV[1], ARGV[2], ARGV[3] or 'publish'

local wrong = bad_publish(publish) or bad_left(left)
if wrong then
    return wrong
end

local held = call('hget', key, field)
local prefix = beside(key)
local timeout = prefix .. field .. ':rwlock_timeout:'
-- Of the holds given back; one at least: of a take that was refused behind the writing of its first key
local names = {}
for i = left + 1, math.max(tonumber(held) or 0, left + 1) do
    names[#names + 1] = timeout .. string.format('%.0f', i)
end
if not held or left ~= '0' then
    delete(names)
    if held and tonumber(held) and tonumber(held) > tonumber(left) then
        call('hset', key, field, left)
    end
    return held and 0 or -14
end

local fields = call('hkeys', key) -- the mode and the caller's among them
local free = #fields <= 2
if not free and call('hget', key, 'mode') ~= 'write' then
    local own, enough = #fields > 9 and math.max(1, call('pttl', timeout .. '1')), false
    for i = own and #fields or 0, 1, -1 do -- the youngest first: small hashes are in order
        enough = fields[i] ~= field and call('pttl', prefix .. fields[i] .. ':rwlock_timeout:1') >= own
        if enough then
            break
        end
    end
    local most = not enough and longest(key, field)
    free = most and most < 1
    if most and most > 0 then
        call('pexpire', key, string.format('%.0f', most))
    end
end
if free then
    table.insert(names, 1, key)
    delete(names)
    return type(redis.pcall(publish, KEYS[2], '0')) == 'table' and 2 or 1
end
delete(names)
call('hdel', key, field)
return 0
