-- SPDX-License-Identifier: MIT
-- Take the simple lock, or confirm a hold that the caller has. A first try is a plain SET NX PX, which costs less; this
-- is for repeats, for tries after a refusal, which want the hint, and for tokens.
--
-- KEYS[1]  the lock, a string: the holder's value
-- ARGV[1]  value of the caller             ARGV[2]  count wanted, always 1: the lock is not re-entrant
-- ARGV[3]  lease in ms, 1 to 2^40          ARGV[4]  '1': a fencing token is wanted; absent or '0': not
-- Returns -10 taken now; -11 held already; otherwise (>= -1) the present holder's time to live in ms, -1 when it has
-- none. With a token wanted, the server's time in microseconds in place of -10 and -11.
--
-- May be repeated and may come late: the time to live only grows. All is checked before the first write.
local call, key, value, lease = redis.call, KEYS[1], ARGV[1], ARGV[3]

if ARGV[2] ~= '1' then
    return redis.error_reply('ERR redlatch: count must be 1')
end
if not string.find(lease, '^[1-9]%d*$') or tonumber(lease) > 1099511627776 then
    return redis.error_reply('ERR redlatch: lease must be a whole number of ms from 1 to 1099511627776')
end

local answer
local holder = call('get', key)
if not holder then
    call('set', key, value, 'px', lease)
    answer = -10
else
    local ttl = call('pttl', key)
    if holder ~= value then
        return ttl
    end
    -- no shorter than it was, and written in any case: a WAIT may follow
    call('pexpire', key, ttl > tonumber(lease) and ttl or lease)
    answer = -11
end
if ARGV[4] == '1' then
    local now = call('time')
    return now[1] * 1000000 + now[2]
end
return answer
