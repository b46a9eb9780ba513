-- SPDX-License-Identifier: MIT
-- Planted: the watchdog of another implementation's reader. It sets the lock's time to live to its own lease, ARGV[2],
-- whatever others hold.
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
    return 0
end
redis.call('set', '{' .. KEYS[1] .. '}:' .. ARGV[1] .. ':rwlock_timeout:1', '1', 'px', ARGV[2])
redis.call('pexpire', KEYS[1], ARGV[2])
return 1
