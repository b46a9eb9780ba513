-- SPDX-License-Identifier: MIT
-- Say who a client is, for people who ask who holds a lock or waits for it.
--
-- KEYS[1]  the client's description, a hash
-- ARGV[1]  how long it is kept, in ms      ARGV[2...]  its fields, each followed by its value
-- Returns 1.
--
-- May be repeated and may come late: it says the same each time. The first PEXPIRE finds out whether it may be called,
-- before there is a key that would never go.
redis.call('pexpire', KEYS[1], ARGV[1])
redis.call('hset', KEYS[1], unpack(ARGV, 2))
return redis.call('pexpire', KEYS[1], ARGV[1])
