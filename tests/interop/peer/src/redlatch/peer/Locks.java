// SPDX-License-Identifier: MIT
package redlatch.peer;

import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.BiFunction;
import java.util.stream.Stream;
import org.redisson.RedissonRedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/**
 * Everything that Redisson calls an RLock. CLIENT is the name of a client, or several with a + between them for a type
 * that spans servers; the first of them sees to what the lock protects.
 *
 * <pre>
 * lock      CLIENT TYPE NAME LEASE_MS            lease -1: renewed by the watchdog
 * trylock   CLIENT TYPE NAME WAIT_MS LEASE_MS    true or false
 * unlock    CLIENT TYPE NAME
 * force     CLIENT TYPE NAME                     true when somebody held it
 * islocked  CLIENT TYPE NAME                     true or false
 * holdcount CLIENT TYPE NAME                     of the asking thread
 * ttl       CLIENT TYPE NAME                     milliseconds; -2: free
 * </pre>
 */
final class Locks {
    /** A row a type: how Redisson makes it. */
    private static final Map<String, BiFunction<RedissonClient, String, RLock>> TYPES = Map.of(
        "reentrant", RedissonClient::getLock,
        "spin", RedissonClient::getSpinLock,
        "fenced", RedissonClient::getFencedLock,
        "fair", RedissonClient::getFairLock,
        "multi", (client, name) ->
            client.getMultiLock(client.getLock(name + ":c"), client.getLock(name + ":a"), client.getLock(name + ":b")),
        "read", (client, name) -> client.getReadWriteLock(name).readLock(),
        "write", (client, name) -> client.getReadWriteLock(name).writeLock());

    /** The same for those that span servers. */
    private static final Map<String, BiFunction<List<RedissonClient>, String, RLock>> SPANNING =
        Map.of("red", Locks::red);

    /** A lock and what it was made from. */
    record Named(RedissonClient client, String name, RLock lock) {
    }

    private final Clients clients;

    Locks(Clients clients) {
        this.clients = clients;
    }

    void addVerbs(Map<String, Verb> verbs) {
        verbs.put("lock", a -> lock(lockOf(a), a.number()));
        verbs.put("trylock", a -> Boolean.toString(lockOf(a).tryLock(a.number(), a.number(), TimeUnit.MILLISECONDS)));
        verbs.put("unlock", a -> unlock(lockOf(a)));
        verbs.put("force", a -> Boolean.toString(lockOf(a).forceUnlock()));
        verbs.put("islocked", a -> Boolean.toString(lockOf(a).isLocked()));
        verbs.put("holdcount", a -> Integer.toString(lockOf(a).getHoldCount()));
        verbs.put("ttl", a -> Long.toString(lockOf(a).remainTimeToLive()));
    }

    @SuppressWarnings("deprecation")
    private static RLock red(List<RedissonClient> clients, String name) {
        return new RedissonRedLock(clients.stream().map(client -> client.getLock(name)).toArray(RLock[]::new));
    }

    private static RLock make(List<RedissonClient> clients, String type, String name) {
        if (TYPES.containsKey(type)) {
            return TYPES.get(type).apply(clients.get(0), name);
        }
        if (SPANNING.containsKey(type)) {
            return SPANNING.get(type).apply(clients, name);
        }
        throw new IllegalArgumentException("no lock type " + type);
    }

    /** The lock that the next three arguments name: CLIENT TYPE NAME. */
    Named take(Arguments arguments) {
        List<RedissonClient> made = Stream.of(arguments.text().split("\\+")).map(clients::get).toList();
        String type = arguments.text();
        String name = arguments.text();
        return new Named(made.get(0), name, make(made, type, name));
    }

    private RLock lockOf(Arguments arguments) {
        return take(arguments).lock();
    }

    private static String lock(RLock lock, long leaseMs) {
        lock.lock(leaseMs, TimeUnit.MILLISECONDS);
        return null;
    }

    private static String unlock(RLock lock) {
        lock.unlock();
        return null;
    }
}
