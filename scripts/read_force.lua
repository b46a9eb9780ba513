-- SPDX-License-Identifier: MIT
-- End one reader's hold of a read-write lock, if the holder that was seen still has it, whoever asks, and tell that
-- holder's client. Other holds stay.
--
-- KEYS[1]  the lock, a hash                KEYS[2]  the lock's channel
-- ARGV[1]  the field that was seen         ARGV[2]  absent or 'publish'; 'spublish' as in release
-- Returns 1 ended, and `0` published if the lock is free now; 2 the same, and to tell was refused; 0 that holder is
-- gone, or is no reader.

-- include arguments.inc
-- include holds.inc
-- include readwrite.inc
-- include evicted.inc
-- include recall.inc

local call, key, field, publish = redis.call, KEYS[1], ARGV[1], ARGV[2] or 'publish'

local wrong = bad_publish(publish)
if wrong then
    return wrong
end
local mode = call('hget', key, 'mode')
wrong = other_type(mode and mode ~= 'read' and mode ~= 'write' or not mode and call('exists', key) == 1)
if wrong then
    return wrong
end
local held = mode and field ~= 'mode' and string.sub(field, -6) ~= ':write' and call('hget', key, field)
if not held then
    return 0
end
local timeout, names = beside(key) .. field .. ':rwlock_timeout:', {}
for i = 1, tonumber(held) or 0 do
    names[#names + 1] = timeout .. string.format('%.0f', i)
end
local most = mode == 'read' and longest(key, field) -- while its owner writes, the time to live is the writer's
if most and most < 1 then
    table.insert(names, 1, key)
    delete(names)
    tell_evicted(field)
    recall(key, {field}, true)
    return type(redis.pcall(publish, KEYS[2], '0')) == 'table' and 2 or 1
end
if most then
    call('pexpire', key, string.format('%.0f', most))
end
delete(names)
call('hdel', key, field) -- last, so that a repeat goes on where a first one was refused
tell_evicted(field)
recall(key, {field}, true)
return 1
