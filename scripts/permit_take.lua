-- SPDX-License-Identifier: MIT
-- Take permits with ids and a lease, or confirm that this request has taken them.
--
-- KEYS[1]  the free permits, a string      KEYS[2]  the taken ones, a sorted set: id by the moment at which it expires
-- KEYS[3]  the semaphore's channel         KEYS[4], KEYS[5]  of a fair one: queue and signs of life
-- ARGV[1]  lease in ms, 1 to 2^40, or 'never'                     ARGV[2]  'publish' or 'spublish'
-- ARGV[3]  of a fair one: the caller's place in the queue         ARGV[4]  how long it counts
--          as alive from now, in ms, up to 3600000, if it is refused; '0': it is not kept
-- ARGV[5..]  the ids, never used before
-- Returns how many are left, 0 or more, when taken; otherwise {free, ms}: until the next permit expires, -1: never.
-- Free is 0 when it is another's turn.
--
-- May be repeated and may come late: where all ids are there they are taken already, and last at least their lease from
-- now, as their caller counts from the repeat. Where the count cannot be lowered they go again. Where only some are,
-- they are not this request's own, and nothing is taken.

-- include arguments.inc
-- include counts.inc
-- include permits.inc
-- include turns.inc

local call, publish, channel, lease, place, life = redis.call, ARGV[2], KEYS[3], ARGV[1], ARGV[3], ARGV[4]

local bad = bad_publish(publish)
if not bad and lease ~= 'never' and (not string.find(lease, '^[1-9]%d*$') or tonumber(lease) > 1099511627776) then
    bad = redis.error_reply('ERR redlatch: lease must be a whole number of ms from 1 to 1099511627776, or never')
end
local wrong, free, returned, now_ms = return_expired(begin(bad or bad_stay(life) or bad_ids(5)))
if wrong then
    return wrong
end

local ids, ends = {unpack(ARGV, 5)}, lease == 'never' and '922337203685477' or string.format('%.0f', now_ms + lease)
local found, shorter = 0, {}
for i = 1, #ids do
    local present = call('zscore', taken, ids[i])
    found = found + (present and 1 or 0)
    if present and tonumber(present) < tonumber(ends) then
        shorter[#shorter + 1] = ids[i]
    end
end
if found > 0 then
    if returned > 0 then
        tell_total(call, publish, channel, free)
    end
    if found < #ids then
        return redis.error_reply('ERR redlatch: some of these permits are taken, and some are not')
    end
    for i = 1, #shorter do
        call('zadd', taken, ends, shorter[i])
    end
    return math.max(0, free)
end
local my_turn, dropped = turn(place, life ~= '0')
if free < #ids or not my_turn then
    local next, ms = call('zrange', taken, 0, 0, 'withscores')[2], -1
    local refused = keep_place(place, life)
    if next and tonumber(next) < 922337203685477 then
        ms = tonumber(next) - now_ms
    end
    if returned > 0 or dropped and not my_turn then
        tell_total(call, publish, channel, free)
    end
    return refused or {my_turn and math.max(0, free) or 0, ms}
end
local entries, ttl = {}, call('pttl', key)
for i = 1, #ids do
    entries[2 * i - 1], entries[2 * i] = ends, ids[i]
end
free = free - #ids
if leave_queue(place) or returned > 0 then -- first: behind the count it would be refused of what is taken
    tell_total(call, publish, channel, free)
end
call('zadd', taken, unpack(entries))
local by = 'pexpire'
local said = ttl > 0 and redis.pcall(by, taken, ttl)
if type(said) ~= 'table' then
    by = 'decrby'
    said = redis.pcall(by, key, #ids)
end
if type(said) == 'table' then
    redis.pcall('zrem', taken, unpack(ids))
    return redis.error_reply(said.err .. ' (' .. by .. ')')
end
return free
