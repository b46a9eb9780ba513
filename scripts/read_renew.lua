-- SPDX-License-Identifier: MIT
-- See that read holds of read-write locks last at least so long from now. Renewal sends batches, extend a batch of one.
--
-- KEYS[1..k]  the locks, hashes
-- ARGV[2i-1]  field `U:n` of the hold of KEYS[i]       ARGV[2i]  lease in ms, 1 to 2^40
-- Returns {seconds, microseconds, r1 .. rk}: the server's time, and for each lock its time to live in ms as it was
-- before (-1: it had none, now it has), or -14: the hold is gone.
--
-- Each of the owner's holds has a key beside the lock that lives as long as the hold (read_take.lua): all of them, and
-- the lock. A full server refuses SET where a script begins to write with it, and PEXPIRE never. May be repeated and
-- may come late: a time to live only grows, and no hold is created.

-- include holds.inc
-- include readwrite.inc

return renew('hget', function(key, field, lease)
    local call, said = redis.call, redis.pcall('hget', key, field)
    local held = type(said) == 'string'
    if held then
        local timeout = beside(key) .. field .. ':rwlock_timeout:'
        for hold = 1, tonumber(said) or 0 do
            local name = timeout .. string.format('%.0f', hold)
            if call('pttl', name) <= tonumber(lease) and call('pexpire', name, lease) == 0 then
                call('set', name, '1', 'px', lease)
            end
        end
    end
    return held, said
end)
