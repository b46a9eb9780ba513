-- SPDX-License-Identifier: MIT
-- Take the read end of a read-write lock, or confirm and raise a hold that the caller has.
--
-- KEYS[1]  the lock, a hash: `mode`, and each hold's field with its count
-- KEYS[2]  the marks of writers that wait (readwrite.inc): beside a living one no new reader is let in; absent: whoever
--          waits
-- ARGV[1]  field `U:n` of the caller       ARGV[2]  count wanted, 1 to 2^31-1
-- ARGV[3]  lease in ms, 1 to 2^40          ARGV[4]  '1': a fencing token is wanted; absent or '0': not
-- ARGV[5]  field of the caller's own write hold; absent: it has none
-- Returns -10 taken now; -11 held already; -12 count above 1 asked for, and the hold is gone; otherwise (>= -1) the
-- time to live of the present holders, or of the writers that wait, in ms, -1 when there is none. With a token wanted,
-- count 1 answers the server's time in microseconds in place of -10 and -11.
--
-- Readers share; in mode `write` only the writer itself may read as well, and others recall it if its client keeps it
-- (recall.inc). Each of an owner's holds has a key {lock}:field:rwlock_timeout:i beside the lock. The first carries the
-- longest lease that its owner asked for, and goes last: so a hold that is given back leaves the lock as long as the
-- others need it, and a nested take writes two keys, however deep it is. May be repeated and may come late: counts and
-- times to live only grow, and only count 1 creates.
-- A hold that its client means to keep, `U:-n`, and that joins others publishes `0`: a writer that those keep out asks
-- again, and so tells that client that it waits. The keys beside the lock are written first: in a cluster slot that is
-- on its way the server refuses them while the lock itself is still here, and then nothing has been written.

-- include holds.inc
-- include readwrite.inc
-- include recall.inc

local call, key, marks, field, count, lease = redis.call, KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3]

if count ~= '1' and (not string.find(count, '^[1-9]%d*$') or tonumber(count) > 2147483647) then
    return redis.error_reply('ERR redlatch: count must be a whole number from 1 to 2147483647')
end
if not string.find(lease, '^[1-9]%d*$') or tonumber(lease) > 1099511627776 then
    return redis.error_reply('ERR redlatch: lease must be a whole number of ms from 1 to 1099511627776')
end

local mode = call('hget', key, 'mode')
local wrong = other_type(mode and mode ~= 'read' and mode ~= 'write')
if wrong then
    return wrong
end
local held = mode and tonumber(call('hget', key, field) or 0) or 0
if held == 0 then
    if count ~= '1' then
        return -12
    end
    if not mode then
        wrong = other_type(call('exists', key) == 1)
        if wrong then
            return wrong
        end
    elseif mode == 'write' and (not ARGV[5] or call('hexists', key, ARGV[5]) == 0) then
        recall(key, redis.pcall('hkeys', key))
        return call('pttl', key)
    end
    local wait = mode == 'write' and 0 or preferred_ms(marks)
    if wait > 0 then
        return wait
    end
end

local timeout = beside(key) .. field .. ':rwlock_timeout:'
local px = tonumber(lease)
if held > 0 then
    px = math.max(px, call('pttl', timeout .. '1'))
end
call('set', timeout .. '1', '1', 'px', string.format('%.0f', px))
for i = math.max(held + 1, 2), tonumber(count) do
    call('set', timeout .. string.format('%.0f', i), '1', 'px', string.format('%.0f', px))
end
if not mode then
    call('hset', key, 'mode', 'read', field, '1')
    wrong = last(key, lease)
    if wrong then
        return wrong
    end
else
    if held < tonumber(count) then
        call('hset', key, field, count)
    end
    if call('pttl', key) < px then
        call('pexpire', key, string.format('%.0f', px))
    end
    if held == 0 and mode == 'read' and string.find(field, '^[%x-]+:%-') then
        redis.pcall('publish', 'redisson_rwlock:' .. string.sub(beside(key), 1, -2), '0')
    end
end
if ARGV[4] == '1' and count == '1' then
    local now = call('time')
    return now[1] * 1000000 + now[2]
end
return held > 0 and -11 or -10
