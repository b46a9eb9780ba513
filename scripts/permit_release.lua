-- SPDX-License-Identifier: MIT
-- Give back permits by their ids: all of them or none.
--
-- KEYS[1]  the free permits, a string      KEYS[2]  the taken ones, a sorted set: id by the moment at which it expires
-- KEYS[3]  the semaphore's channel
-- ARGV[1]  'publish' or 'spublish'         ARGV[2..]  the ids, none twice
-- An error where there would be more than 2^31-1 free ones then, which is what Java can read.
-- Returns 1 given back, and the total published, which nobody has heard; 16 + h the same, and h have; 0 none of them is
-- taken: expired, given back, or never taken; -14 some are not.
--
-- May be repeated and may come late: ids are never used again. A repeat that finds some of them knows that the first
-- did nothing. Where the count cannot be raised they stay taken.

-- include arguments.inc
-- include counts.inc
-- include permits.inc

local call, publish = redis.call, ARGV[1]

local wrong, free, returned, _, room = return_expired(begin(bad_publish(publish) or bad_ids(2)))
if wrong then
    return wrong
end
local ids, all, some, seen, entries = {unpack(ARGV, 2)}, true, false, {}, {}

for i = 1, #ids do
    local there = not seen[ids[i]] and call('zscore', taken, ids[i])
    all, some = all and there, some or there
    seen[ids[i]] = true
    entries[2 * i - 1], entries[2 * i] = there, ids[i]
end
local fits, heard = #ids <= room, 0
if all and fits then
    free = free + #ids
end
if all and fits or returned > 0 then -- first: who is told of an error has released nothing
    heard = tell_total(call, publish, KEYS[3], free)
end
if all and fits then
    call('zrem', taken, unpack(ids))
    local said = redis.pcall('incrby', key, #ids)
    if type(said) == 'table' then
        put_back(entries)
        return redis.error_reply(said.err .. ' (incrby)')
    end
end
if all and not fits then
    return redis.error_reply('ERR redlatch: a semaphore has at most 2147483647 permits')
end
return all and (heard > 0 and 16 + heard or 1) or some and -14 or 0
