package redlatch.peer;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * Redisson clients by name, shared by all threads.
 *
 * <pre>
 * open CLIENT URI WATCHDOG_MS   the client's id, the U of the fields U:n
 * field CLIENT                  the field U:n under which the asking thread holds locks
 * close CLIENT
 * </pre>
 */
final class Clients {
    private final Map<String, RedissonClient> clients = new ConcurrentHashMap<>();

    void addVerbs(Map<String, Verb> verbs) {
        verbs.put("open", a -> open(a.text(), a.text(), a.number()));
        verbs.put("field", a -> get(a.text()).getId() + ":" + Thread.currentThread().getId());
        verbs.put("close", a -> close(a.text()));
    }

    RedissonClient get(String name) {
        RedissonClient client = clients.get(name);
        if (client == null) {
            throw new IllegalArgumentException("no client " + name);
        }
        return client;
    }

    private String open(String name, String uri, long watchdogMs) {
        Config config = new Config();
        /* Few threads and connections: it shares two cores with a server and a test. All else is Redisson's default. */
        config.setThreads(4).setNettyThreads(2).setLockWatchdogTimeout(watchdogMs);
        config.useSingleServer().setAddress(uri).setConnectionMinimumIdleSize(1).setConnectionPoolSize(16)
            .setSubscriptionConnectionMinimumIdleSize(1).setSubscriptionConnectionPoolSize(4);
        RedissonClient client = Redisson.create(config);
        clients.put(name, client);
        return client.getId();
    }

    private String close(String name) {
        get(name).shutdown(0, 2, TimeUnit.SECONDS);
        clients.remove(name);
        return null;
    }
}
