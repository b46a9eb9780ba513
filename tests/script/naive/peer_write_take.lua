-- SPDX-License-Identifier: MIT
-- Planted: the write end, as another implementation takes it: it tells nobody that it waits. KEYS and ARGV as in
-- write_take.
if redis.call('exists', KEYS[1]) == 1 then
    return redis.call('pttl', KEYS[1])
end
redis.call('hset', KEYS[1], 'mode', 'write', ARGV[1], '1')
redis.call('pexpire', KEYS[1], ARGV[3])
return -10
