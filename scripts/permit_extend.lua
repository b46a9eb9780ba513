-- See that a permit lasts at least so long from now, or say how long it lasts.
--
-- KEYS[1]  the free permits, a string      KEYS[2]  the taken ones, a sorted set: id by the moment at which it expires
-- KEYS[3]  the semaphore's channel
-- ARGV[1]  'publish' or 'spublish'         ARGV[2]  lease in ms, 0 (only say) to 2^40        ARGV[3]  the id
-- Returns the ms that are left then; 9223372036854775807 as text: it does not expire; -14 it is not taken.
--
-- May be repeated and may come late: a permit's end only moves away.
local publish, channel, lease, from = ARGV[1], KEYS[3], ARGV[2], 3

-- include publishes.inc
if not string.find(lease, '^%d+$') or tonumber(lease) > 1099511627776 then
    return redis.error_reply('ERR redlatch: lease must be a whole number of ms from 0 to 1099511627776')
end
-- include ids.inc
-- include returned.inc
if returned > 0 then
    -- include publish_free.inc
end
local ends = call('zscore', taken, ids[1])
if not ends then
    return -14
end
ends = tonumber(ends)
if ends >= 922337203685477 then
    return '9223372036854775807'
end
if ends < now_ms + lease then
    ends = now_ms + lease
    call('zadd', taken, 'xx', string.format('%.0f', ends), ids[1])
end
return ends - now_ms
