-- SPDX-License-Identifier: MIT
-- Planted: the write end, as another implementation gives it back. KEYS and ARGV as in write_release.
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
    return -14
end
redis.call('del', KEYS[1])
redis.call('publish', KEYS[2], '1')
return 1
