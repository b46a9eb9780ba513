package redlatch.peer;

import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.BiFunction;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/**
 * Everything that Redisson calls an RLock.
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
        "read", (client, name) -> client.getReadWriteLock(name).readLock(),
        "write", (client, name) -> client.getReadWriteLock(name).writeLock());

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

    /** The lock that the next three arguments name: CLIENT TYPE NAME. */
    Named take(Arguments arguments) {
        RedissonClient client = clients.get(arguments.text());
        String type = arguments.text();
        BiFunction<RedissonClient, String, RLock> make = TYPES.get(type);
        if (make == null) {
            throw new IllegalArgumentException("no lock type " + type);
        }
        String name = arguments.text();
        return new Named(client, name, make.apply(client, name));
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
