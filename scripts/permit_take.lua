-- Take permits with ids and a lease, or confirm that this request has taken them.
--
-- KEYS[1]  the free permits, a string      KEYS[2]  the taken ones, a sorted set: id by the moment at which it expires
-- KEYS[3]  the semaphore's channel         KEYS[4], KEYS[5]  of a fair one: queue and signs of life
-- ARGV[1]  lease in ms, 1 to 2^40, or 'never'                     ARGV[2]  'publish' or 'spublish'
-- ARGV[3]  of a fair one: the caller's place in the queue         ARGV[4]  '1': to be kept if it is refused
-- ARGV[5..]  the ids, never used before
-- Returns how many are left, 0 or more, when taken; otherwise {free, ms}: until the next permit expires, -1: never. Free is
-- 0 when it is another's turn.
--
-- May be repeated and may come late: an id that is there is taken already, and lasts at least its lease from now, as its
-- caller counts from the repeat.
local publish, channel, lease, from = ARGV[2], KEYS[3], ARGV[1], 5

-- include publishes.inc
if lease ~= 'never' and (not string.find(lease, '^[1-9]%d*$') or tonumber(lease) > 1099511627776) then
    return redis.error_reply('ERR redlatch: lease must be a whole number of ms from 1 to 1099511627776, or never')
end
-- include ids.inc
-- include returned.inc
local queue, signs = #KEYS >= 5 and KEYS[4], KEYS[5]
local place, queues = ARGV[3], ARGV[4] == '1'

local ends = lease == 'never' and '922337203685477' or string.format('%.0f', now_ms + lease)
if call('zscore', taken, ids[1]) then
    for i = 1, #ids do
        local present = call('zscore', taken, ids[i])
        if present and tonumber(present) < tonumber(ends) then
            call('zadd', taken, ends, ids[i])
        end
    end
    if returned > 0 then
        -- include publish_free.inc
    end
    return math.max(0, free)
end
-- include queue.inc
if free < #ids or not my_turn then
    local next, ms = call('zrange', taken, 0, 0, 'withscores')[2], -1
    keep_place()
    if next and tonumber(next) < 922337203685477 then
        ms = tonumber(next) - now_ms
    end
    if returned > 0 or dropped and not my_turn then
        -- include publish_free.inc
    end
    return {my_turn and math.max(0, free) or 0, ms}
end
for i = 1, #ids do
    call('zadd', taken, ends, ids[i])
end
free = call('decrby', key, #ids)
local ttl = call('pttl', key)
if ttl > 0 then
    call('pexpire', taken, ttl)
end
if leave_queue() or returned > 0 then
    -- include publish_free.inc
end
return free
