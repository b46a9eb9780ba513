-- Take the write end of a read-write lock, or confirm and raise a hold that the caller has.
--
-- KEYS[1]  the lock, a hash: `mode`, and each hold's field with its count
-- ARGV[1]  field `U:n:write` of the caller ARGV[2]  count wanted, 1 to 2^31-1
-- ARGV[3]  lease in ms, 1 to 2^40          ARGV[4]  '1': a fencing token is wanted; absent or '0': not
-- Returns -10 taken now; -11 held already; -12 count above 1 asked for, and the hold is gone; otherwise (>= -1) the time to
-- live of the present holders in ms, -1 when there is none. With a token wanted, count 1 answers the server's time in
-- microseconds in place of -10 and -11.
--
-- May be repeated and may come late: count and time to live only grow, and only count 1 creates.
local call, key, field, count, lease = redis.call, KEYS[1], ARGV[1], ARGV[2], ARGV[3]

if count ~= '1' and (not string.find(count, '^[1-9]%d*$') or tonumber(count) > 2147483647) then
    return redis.error_reply('ERR redlatch: count must be a whole number from 1 to 2147483647')
end
if not string.find(lease, '^[1-9]%d*$') or tonumber(lease) > 1099511627776 then
    return redis.error_reply('ERR redlatch: lease must be a whole number of ms from 1 to 1099511627776')
end

local answer
local mode = call('hget', key, 'mode')
local held = mode and call('hget', key, field)
if not mode then
    if count ~= '1' then
        return -12
    end
    if call('exists', key) == 1 then
        return redis.error_reply('ERR redlatch: the name is held as a lock of another type')
    end
    call('hset', key, 'mode', 'write', field, '1')
    call('pexpire', key, lease)
    answer = -10
elseif not held then
    return count == '1' and call('pttl', key) or -12
else
    if (tonumber(held) or 0) < tonumber(count) then
        call('hset', key, field, count)
    end
    if call('pttl', key) < tonumber(lease) then
        call('pexpire', key, lease)
    end
    answer = -11
end
if ARGV[4] == '1' and count == '1' then
    local now = call('time')
    return now[1] * 1000000 + now[2]
end
return answer
