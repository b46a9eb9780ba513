-- SPDX-License-Identifier: MIT
-- Planted: a writer that gives up and leaves its mark.
if redis.call('hdel', KEYS[1], ARGV[1]) == 0 then
    return -14
end
redis.call('del', KEYS[1])
return 1
