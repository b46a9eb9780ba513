-- See that read holds of read-write locks last at least so long from now. Renewal sends batches, extend a batch of one.
--
-- KEYS[1..k]  the locks, hashes
-- ARGV[2i-1]  field `U:n` of the hold of KEYS[i]       ARGV[2i]  lease in ms, 1 to 2^40
-- Returns {seconds, microseconds, r1 .. rk}: the server's time, and for each lock its time to live in ms as it was
-- before (-1: it had none, now it has), or -14: the hold is gone.
--
-- Each of the owner's holds has a key beside the lock that lives as long as the hold (read_take.lua): all of them, and the lock.
-- May be repeated and may come late: a time to live only grows, and no hold is created.
-- A key of another type under one name is that hold gone, not a failure of its neighbours in the batch.
local call, pcall = redis.call, redis.pcall

if #ARGV ~= 2 * #KEYS then
    return redis.error_reply('ERR redlatch: a field and a lease are wanted for each key')
end
for i = 1, #KEYS do
    local lease = ARGV[2 * i]
    if not string.find(lease, '^[1-9]%d*$') or tonumber(lease) > 1099511627776 then
        return redis.error_reply('ERR redlatch: lease must be a whole number of ms from 1 to 1099511627776')
    end
end

local now = call('time')
local answer = {tonumber(now[1]), tonumber(now[2])}
for i = 1, #KEYS do
    local key, field, lease = KEYS[i], ARGV[2 * i - 1], ARGV[2 * i]
    local held = pcall('hget', key, field)
    if type(held) == 'string' then
        local timeout = (string.find(key, '{', 1, true) and key or '{' .. key .. '}') .. ':' .. field .. ':rwlock_timeout:'
        for hold = 1, tonumber(held) or 0 do
            local name = timeout .. string.format('%.0f', hold)
            if call('pttl', name) < tonumber(lease) then
                call('set', name, '1', 'px', lease)
            end
        end
        local ttl = call('pttl', key)
        if ttl < tonumber(lease) then
            call('pexpire', key, lease)
        end
        answer[i + 2] = ttl
    elseif not held or string.find(held.err, '^WRONGTYPE') then
        answer[i + 2] = -14
    else
        return held
    end
end
return answer
