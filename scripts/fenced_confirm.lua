-- SPDX-License-Identifier: MIT
-- See that a hold of a fenced lock lasts at least so long from now, and that no token that is drawn later, by anybody,
-- is below the server's time: the hold's client may give those.
--
-- KEYS[1]  the lock, a hash of one field: the holder's, with its hold count
-- KEYS[2]  the counter: the token of the last hold, without a time to live
-- ARGV[1]  field `U:n` of the hold         ARGV[2]  lease in ms, 1 to 2^40
-- Returns {seconds, microseconds, r}: the server's time, and the lock's time to live in ms as it was before, or -14:
-- the hold is gone.
--
-- May be repeated and may come late: the counter and the time to live only grow, and nothing is created. A counter that
-- is no number stays so: the next take says it. The counter goes first: raised for nobody it is a token that nobody
-- has.

local call, key, counter, lease = redis.call, KEYS[1], KEYS[2], ARGV[2]

if not string.find(lease, '^[1-9]%d*$') or tonumber(lease) > 1099511627776 then
    return redis.error_reply('ERR redlatch: lease must be a whole number of ms from 1 to 1099511627776')
end
local now = call('time')
local answer = {tonumber(now[1]), tonumber(now[2]), -14}
if call('hexists', key, ARGV[1]) == 1 then
    local clock = now[1] * 1000000 + now[2]
    if (tonumber(call('get', counter) or 0) or clock) < clock then
        call('set', counter, string.format('%.0f', clock))
    end
    answer[3] = call('pttl', key)
    -- no shorter than it was, and written in any case: a WAIT may follow
    call('pexpire', key, answer[3] > tonumber(lease) and answer[3] or lease)
end
return answer
