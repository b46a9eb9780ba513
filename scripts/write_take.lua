-- SPDX-License-Identifier: MIT
-- Take the write end of a read-write lock, or confirm and raise a hold that the caller has.
--
-- KEYS[1]  the lock, a hash: `mode`, and each hold's field with its count
-- KEYS[2]  the marks of writers that wait (readwrite.inc): one that is refused because of readers leaves one; absent:
--          it does not
-- KEYS[3]  with KEYS[2]: the lock's channel
-- ARGV[1]  field `U:n:write` of the caller ARGV[2]  count wanted, 1 to 2^31-1
-- ARGV[3]  lease in ms, 1 to 2^40          ARGV[4]  '1': a fencing token is wanted; absent or '0': not
-- ARGV[5]  with KEYS[2]: life: a mark counts for so long, in ms, 3 to 2^40; '0': leave none
-- ARGV[6]  absent or 'publish'; 'spublish' where the fleet uses sharded channels
-- Returns -10 taken now; -11 held already; -12 count above 1 asked for, and the hold is gone; otherwise (>= -1) the
-- time to live of the present holders in ms, -1 when there is none; with a mark left at most a third of a life, which
-- is when to look again and so to renew it. With a token wanted, count 1 answers the server's time in microseconds in
-- place of -10 and -11.
--
-- Whoever gets in takes all marks away, and `2` is published: the others leave theirs again when readers keep them out,
-- and readers whom the marks kept out have not been told yet when this hold ends by itself. Who is refused recalls what
-- clients keep (recall.inc). May be repeated and may come late: count and time to live only grow, and only count 1
-- creates.

-- include arguments.inc
-- include holds.inc
-- include readwrite.inc
-- include recall.inc

local call, key, marks, field, count, lease, life = redis.call, KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3], ARGV[5]
local publish = ARGV[6] or 'publish'

local wrong = bad_publish(publish)
if wrong then
    return wrong
end
if count ~= '1' and (not string.find(count, '^[1-9]%d*$') or tonumber(count) > 2147483647) then
    return redis.error_reply('ERR redlatch: count must be a whole number from 1 to 2147483647')
end
if not string.find(lease, '^[1-9]%d*$') or tonumber(lease) > 1099511627776 then
    return redis.error_reply('ERR redlatch: lease must be a whole number of ms from 1 to 1099511627776')
end
if marks and life ~= '0'
    and (not string.find(life, '^[1-9]%d*$') or tonumber(life) < 3 or tonumber(life) > 1099511627776) then
    return redis.error_reply('ERR redlatch: life must be 0 or a whole number of ms from 3 to 1099511627776')
end

local function leave_mark(ttl)
    local now = now_ms()
    call('zremrangebyscore', marks, '-inf', string.format('%.0f', now))
    local left = call('pttl', marks)
    call('zadd', marks, string.format('%.0f', now + life), field)
    if left < tonumber(life) then
        local lasts = redis.pcall('pexpire', marks, life)
        if lasts ~= 1 then
            redis.pcall('zrem', marks, field)
            return redis.error_reply(lasts.err .. ' (pexpire)')
        end
    end
    local look = math.floor(life / 3)
    return ttl < 0 and look or math.max(math.min(look, ttl), 1)
end

local answer
local mode = call('hget', key, 'mode')
wrong = other_type(mode and mode ~= 'read' and mode ~= 'write')
if wrong then
    return wrong
end
local held = mode and call('hget', key, field)
if not mode then
    if count ~= '1' then
        return -12
    end
    wrong = other_type(call('exists', key) == 1)
    if wrong then
        return wrong
    end
    call('hset', key, 'mode', 'write', field, '1')
    wrong = last(key, lease)
    if wrong then
        return wrong
    end
    if marks and call('del', marks) == 1 then
        call(publish, KEYS[3], '2')
    end
    answer = -10
elseif not held then
    if count ~= '1' then
        return -12
    end
    recall(key, redis.pcall('hkeys', key))
    local ttl = call('pttl', key)
    return marks and life ~= '0' and mode == 'read' and leave_mark(ttl) or ttl
else
    if (tonumber(held) or 0) < tonumber(count) then
        call('hset', key, field, count)
    end
    local ttl = call('pttl', key)
    -- no shorter than it was, and written in any case: a WAIT may follow
    call('pexpire', key, ttl > tonumber(lease) and ttl or lease)
    answer = -11
end
if ARGV[4] == '1' and count == '1' then
    local now = call('time')
    return now[1] * 1000000 + now[2]
end
return answer
