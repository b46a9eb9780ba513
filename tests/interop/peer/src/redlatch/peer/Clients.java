// SPDX-License-Identifier: MIT
package redlatch.peer;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.BaseMasterSlaveServersConfig;
import org.redisson.config.Config;

/**
 * Redisson clients by name, shared by all threads.
 *
 * <pre>
 * open CLIENT URI WATCHDOG_MS   the client's id, the U of the fields U:n; redis://HOST:PORT,
 *                               cluster://HOST:PORT,HOST:PORT..., or sentinel://HOST:PORT,HOST:PORT.../MASTER
 * field CLIENT                  the field U:n under which the asking thread holds locks
 * close CLIENT
 * </pre>
 */
final class Clients {
    private static final String CLUSTER = "cluster://";
    private static final String SENTINEL = "sentinel://";

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
        if (uri.startsWith(CLUSTER)) {
            useCluster(config, uri.substring(CLUSTER.length()).split(","));
        } else if (uri.startsWith(SENTINEL)) {
            useSentinels(config, uri.substring(SENTINEL.length()).split("[,/]"));
        } else {
            config.useSingleServer().setAddress(uri).setConnectionMinimumIdleSize(1).setConnectionPoolSize(16)
                .setSubscriptionConnectionMinimumIdleSize(1).setSubscriptionConnectionPoolSize(4)
                .setSubscriptionsPerConnection(20);
        }
        RedissonClient client = Redisson.create(config);
        clients.put(name, client);
        return client.getId();
    }

    private static void useCluster(Config config, String[] nodes) {
        keepSmall(config.useClusterServers());
        for (String node : nodes) {
            config.useClusterServers().addNodeAddress("redis://" + node);
        }
    }

    /** The last word is the master's name. */
    private static void useSentinels(Config config, String[] words) {
        keepSmall(config.useSentinelServers()).setMasterName(words[words.length - 1]);
        for (int i = 0; i < words.length - 1; i++) {
            config.useSentinelServers().addSentinelAddress("redis://" + words[i]);
        }
    }

    private static <T extends BaseMasterSlaveServersConfig<T>> T keepSmall(T servers) {
        return servers.setMasterConnectionMinimumIdleSize(1).setMasterConnectionPoolSize(16)
            .setSlaveConnectionMinimumIdleSize(1).setSlaveConnectionPoolSize(4)
            .setSubscriptionConnectionMinimumIdleSize(1).setSubscriptionConnectionPoolSize(4)
            .setSubscriptionsPerConnection(20);
    }

    private String close(String name) {
        get(name).shutdown(0, 2, TimeUnit.SECONDS);
        clients.remove(name);
        return null;
    }
}
