-- SPDX-License-Identifier: MIT
-- See that a permit lasts at least so long from now, or say how long it lasts.
--
-- KEYS[1]  the free permits, a string      KEYS[2]  the taken ones, a sorted set: id by the moment at which it expires
-- KEYS[3]  the semaphore's channel
-- ARGV[1]  'publish' or 'spublish'         ARGV[2]  lease in ms, 0 (only say) to 2^40        ARGV[3]  the id
-- Returns the ms that are left then; 9223372036854775807 as text: it does not expire; -14 it is not taken.
--
-- May be repeated and may come late: a permit's end only moves away.

-- include arguments.inc
-- include counts.inc
-- include permits.inc

local call, publish, lease, id = redis.call, ARGV[1], ARGV[2], ARGV[3]

local bad = bad_publish(publish)
if not bad and (not string.find(lease, '^%d+$') or tonumber(lease) > 1099511627776) then
    bad = redis.error_reply('ERR redlatch: lease must be a whole number of ms from 0 to 1099511627776')
end
local wrong, free, returned, now_ms = return_expired(begin(bad or bad_ids(3)))
if wrong then
    return wrong
end
if returned > 0 then
    tell_total(call, publish, KEYS[3], free)
end
local ends = call('zscore', taken, id)
if not ends then
    return -14
end
ends = tonumber(ends)
if ends >= 922337203685477 then
    return '9223372036854775807'
end
if ends < now_ms + lease then
    ends = now_ms + lease
    call('zadd', taken, 'xx', string.format('%.0f', ends), id)
end
return ends - now_ms
