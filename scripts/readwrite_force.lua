-- SPDX-License-Identifier: MIT
-- Free one end of a read-write lock, if the holder that was seen still has it, whoever asks; with it goes the whole
-- lock, and the clients of all its holds are told.
--
-- KEYS[1]  the lock, a hash                KEYS[2]  the lock's channel
-- ARGV[1]  the field that was seen: one that ends in `:write` is a writer's
-- ARGV[2]  absent or 'publish'; 'spublish' as in release
-- Returns 1 freed, and `1` and `0` (a writer), as write_release has them, or `0` (readers) published; 2 the same, and
-- to tell was refused; 0 that holder is gone, or the other end is held.

-- include arguments.inc
-- include holds.inc
-- include readwrite.inc
-- include evicted.inc
-- include recall.inc

local call, key, publish = redis.call, KEYS[1], ARGV[2] or 'publish'
local writes = string.sub(ARGV[1], -6) == ':write'

local wrong = bad_publish(publish)
if wrong then
    return wrong
end
local mode = call('hget', key, 'mode')
wrong = other_type(mode and mode ~= 'read' and mode ~= 'write' or not mode and call('exists', key) == 1)
if wrong then
    return wrong
end
if mode ~= (writes and 'write' or 'read') or call('hexists', key, ARGV[1]) == 0 then
    return 0
end
local prefix = beside(key)
local fields, names = call('hgetall', key), {key} -- the lock first: without it the others mean nothing
for i = 1, #fields, 2 do
    for hold = 1, tonumber(fields[i + 1]) or 0 do
        names[#names + 1] = prefix .. fields[i] .. ':rwlock_timeout:' .. string.format('%.0f', hold)
    end
end
delete(names)
for i = 1, #fields, 2 do
    tell_evicted(fields[i])
    recall(key, {fields[i]}, true)
end
if writes then
    redis.pcall(publish, KEYS[2], '1')
end
return type(redis.pcall(publish, KEYS[2], '0')) == 'table' and 2 or 1
