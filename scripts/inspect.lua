-- SPDX-License-Identifier: MIT
-- What stands at a lock's keys, and who listens. Changes nothing.
--
-- KEYS[1]  the lock, or whatever has that name       KEYS[2..k]  keys beside it
-- ARGV[1]  how many fields, entries or bytes are looked at of each, 1 to 1000
-- ARGV[2]  'numsub'; 'shardnumsub' where the fleet uses sharded channels        ARGV[3..]  channels
-- Returns {seconds, microseconds, key 1 .. key k, listeners}: the server's time; of each key {type, time to live in ms,
-- size, content, ends}; listeners {channel, number, ...}, or nothing where the user may not ask.
-- Where clients stand in a line of the channel's name (line.inc), the number is theirs if that is greater.
--
-- Content is what the type's own commands answer: fields and counts by turns of a hash, entries and scores by turns of
-- a sorted set, the first ones of a list, the first bytes of a string as the only entry. A small hash may show more
-- than was asked for. `ends` is of a read-write lock alone: its mode, and for each field of the content the ms that its
-- read holds have left, -2: none.

local call, most = redis.call, tonumber(ARGV[1])

-- How long a reader's holds last: the longest of the first few.
local function left(prefix, field, count)
    local longest = -2
    for i = 1, math.min(tonumber(count) or 0, 4) do
        longest = math.max(longest, call('pttl', prefix .. field .. ':rwlock_timeout:' .. i))
    end
    return longest
end

local function ends(key, fields)
    local mode = call('hget', key, 'mode')
    local found = {mode or ''}
    if mode ~= 'read' and mode ~= 'write' then
        return found
    end
    local prefix = (string.find(key, '{', 1, true) and key or '{' .. key .. '}') .. ':'
    for i = 1, #fields, 2 do
        found[#found + 1] = left(prefix, fields[i], fields[i + 1])
    end
    return found
end

-- Fields and counts without the marks of who is waited for (line.inc).
local function held(fields)
    local kept = {marks = 0}
    for i = 1, #fields, 2 do
        if string.find(fields[i], ':wanted$') then
            kept.marks = kept.marks + 1
        else
            kept[#kept + 1] = fields[i]
            kept[#kept + 1] = fields[i + 1]
        end
    end
    return kept
end

local function look(key)
    local kind = call('type', key).ok
    local ttl = call('pttl', key)
    if kind == 'hash' then
        local fields = held(call('hscan', key, '0', 'count', ARGV[1])[2])
        return {kind, ttl, call('hlen', key) - fields.marks, fields, ends(key, fields)}
    elseif kind == 'list' then
        return {kind, ttl, call('llen', key), call('lrange', key, 0, most - 1)}
    elseif kind == 'zset' then
        return {kind, ttl, call('zcard', key), call('zrange', key, 0, most - 1, 'withscores')}
    elseif kind == 'string' then
        return {kind, ttl, 1, {call('getrange', key, 0, 127)}}
    end
    return {kind, ttl, 0, {}}
end

local time = call('time')
local found = {time[1], time[2]}
for i = 1, #KEYS do
    found[i + 2] = look(KEYS[i])
end
local listeners = #ARGV > 2 and redis.pcall('pubsub', unpack(ARGV, 2)) or {}
for i = 1, #listeners, 2 do
    local line = string.find(listeners[i], '^redisson_lock__channel') and redis.pcall('hget', listeners[i], 'count')
    listeners[i + 1] = math.max(listeners[i + 1], tonumber(type(line) == 'string' and line) or 0)
end
found[#found + 1] = listeners.err and {} or listeners
return found
