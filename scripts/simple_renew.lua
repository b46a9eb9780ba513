-- SPDX-License-Identifier: MIT
-- See that holds of simple locks last at least so long from now. Renewal sends batches, extend a batch of one.
--
-- KEYS[1..k]  the locks, strings
-- ARGV[2i-1]  value of the hold of KEYS[i]             ARGV[2i]  lease in ms, 1 to 2^40
-- Returns {seconds, microseconds, r1 .. rk}: the server's time, and for each lock its time to live in ms as it was
-- before (-1: it had none, now it has), or -14: the hold is gone.
--
-- May be repeated and may come late: a time to live only grows, and nothing is created.

-- include holds.inc

return renew('get', function(key, value)
    local said = redis.pcall('get', key)
    return said == value, said
end)
