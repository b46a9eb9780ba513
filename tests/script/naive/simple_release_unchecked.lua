-- SPDX-License-Identifier: MIT
-- Planted: a release that does not look whose value it is.
if redis.call('del', KEYS[1]) == 0 then
    return -14
end
redis.call('publish', KEYS[2], '0')
return 1
