-- SPDX-License-Identifier: MIT
-- Planted: a writer's release that frees the lock, though the writer goes on reading.
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
    return -14
end
redis.call('del', KEYS[1])
redis.call('publish', KEYS[2], '0')
return 1
