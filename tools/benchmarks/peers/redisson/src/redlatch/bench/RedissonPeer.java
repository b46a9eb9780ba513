// SPDX-License-Identifier: MIT
package redlatch.bench;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.StringJoiner;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** Redisson's reentrant lock, measured. tools/benchmarks/peers/build describes the command line and the answer. */
public final class RedissonPeer {
    private static final Set<String> OPTIONS = Set.of("server", "mode", "threads", "locks", "seconds", "warmup",
        "hold-ms", "pause-ms", "at-ms");
    private static final long LEASE_MS = 30_000;
    private static final long WAITED_MS = 5;
    private static final long TURN_WARMUP_NS = TimeUnit.SECONDS.toNanos(1);
    private static final long TURN_REST_NS = TimeUnit.SECONDS.toNanos(1);

    private final String server;
    private final String mode;
    private final int threads;
    private final int locks;
    private final double seconds;
    private final double warmup;
    private final long holdMs;
    private final long pauseMs;
    private final long atMs;
    private long start;
    private long end;

    private RedissonPeer(Map<String, String> options) {
        server = options.get("server");
        mode = options.getOrDefault("mode", "pairs");
        threads = mode.equals("handoff") ? 2 : Integer.parseInt(options.getOrDefault("threads", "1"));
        locks = mode.equals("handoff") ? 1 : Integer.parseInt(options.getOrDefault("locks", "1"));
        seconds = Double.parseDouble(options.getOrDefault("seconds", "5"));
        warmup = Double.parseDouble(options.getOrDefault("warmup", "1"));
        holdMs = Long.parseLong(options.getOrDefault("hold-ms", "0"));
        pauseMs = Long.parseLong(options.getOrDefault("pause-ms", "0"));
        atMs = Long.parseLong(options.getOrDefault("at-ms", "0"));
        if (server == null) {
            throw new IllegalArgumentException("--server HOST:PORT is missing");
        }
    }

    public static void main(String[] arguments) {
        try {
            RedissonPeer peer = new RedissonPeer(parse(arguments));
            if (peer.mode.equals("shares")) {
                System.out.println(peer.shares());
            } else {
                peer.print(peer.run());
            }
            System.exit(0);
        } catch (Exception e) {
            System.err.println("redisson peer: " + e);
            System.exit(1);
        }
    }

    private static Map<String, String> parse(String[] arguments) {
        Map<String, String> options = new HashMap<>();
        for (int i = 0; i < arguments.length; i += 2) {
            String name = arguments[i].replaceFirst("^--", "");
            if (!OPTIONS.contains(name) || i + 1 == arguments.length) {
                throw new IllegalArgumentException("no such option, or no value for it: " + arguments[i]);
            }
            options.put(name, arguments[i + 1]);
        }
        return options;
    }

    private Samples run() throws Exception {
        return switch (mode) {
            case "pairs" -> pairs();
            case "handoff" -> handoff();
            default -> throw new IllegalArgumentException("no mode " + mode);
        };
    }

    /** Time runs from here, so connect first. */
    private void begin() {
        start = System.nanoTime() + (long) (warmup * 1e9);
        end = start + (long) (seconds * 1e9);
    }

    private RedissonClient open() {
        Config config = new Config();
        config.useSingleServer().setAddress("redis://" + server);
        return Redisson.create(config);
    }

    /** Nanoseconds, of one thread, in an array that grows. Only what lies within the measured time is kept. */
    private final class Samples {
        private long[] values = new long[1 << 16];
        private int count;

        void add(long from, long to) {
            if (from >= start && to < end) {
                append(to - from);
            }
        }

        void addAll(Samples other) {
            for (int i = 0; i < other.count; i++) {
                append(other.values[i]);
            }
        }

        private void append(long value) {
            if (count == values.length) {
                values = Arrays.copyOf(values, 2 * count);
            }
            values[count++] = value;
        }

        double us(double share) {
            return count == 0 ? 0 : values[(int) (share * (count - 1))] / 1e3;
        }
    }

    private Samples pairs() throws Exception {
        RedissonClient client = open();
        List<Callable<Samples>> parts = new ArrayList<>();
        for (int i = 0; i < threads; i++) {
            RLock lock = client.getLock("bench:" + i % locks);
            parts.add(() -> lockAndUnlock(lock));
        }
        begin();
        Samples all = new Samples();
        for (Future<Samples> part : Executors.newFixedThreadPool(threads).invokeAll(parts)) {
            all.addAll(part.get());
        }
        return all;
    }

    private Samples lockAndUnlock(RLock lock) {
        Samples samples = new Samples();
        for (long before = System.nanoTime(); before < end;) {
            lock.lock(LEASE_MS, TimeUnit.MILLISECONDS);
            lock.unlock();
            long after = System.nanoTime();
            samples.add(before, after);
            before = after;
        }
        return samples;
    }

    /** One of the two between whom the lock goes to and fro; both verbs run on its thread and tell a time. */
    private final class Side {
        private final RLock lock = open().getLock("bench:handoff");
        private final ExecutorService thread = Executors.newSingleThreadExecutor();

        /** When it had the lock. */
        Future<Long> take() {
            return thread.submit(() -> {
                lock.lock(LEASE_MS, TimeUnit.MILLISECONDS);
                return System.nanoTime();
            });
        }

        /** When it began to release. */
        Future<Long> release() {
            return thread.submit(() -> {
                long before = System.nanoTime();
                lock.unlock();
                return before;
            });
        }
    }

    private Samples handoff() throws Exception {
        Samples samples = new Samples();
        Side holder = new Side();
        Side waiter = new Side();
        begin();
        holder.take().get();
        while (System.nanoTime() < end) {
            Future<Long> taken = waiter.take();
            Thread.sleep(WAITED_MS);
            long released = holder.release().get();
            samples.add(released, taken.get());
            Side next = holder;
            holder = waiter;
            waiter = next;
        }
        holder.release().get();
        return samples;
    }

    /** One type after another, at the times that tools/benchmarks/programs/shares.c describes. */
    private String shares() throws Exception {
        RedissonClient client = open();
        Map<String, Function<String, RLock>> types = new LinkedHashMap<>();
        types.put("reentrant", client::getLock);
        types.put("fenced", client::getFencedLock);
        types.put("fair", client::getFairLock);
        types.put("write", name -> client.getReadWriteLock(name).writeLock());
        types.put("spin", client::getSpinLock);
        ExecutorService executor = Executors.newFixedThreadPool(threads);
        StringJoiner answer = new StringJoiner(",", "{", "}");
        long turn = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(atMs - System.currentTimeMillis());
        for (Map.Entry<String, Function<String, RLock>> type : types.entrySet()) {
            start = turn + TURN_WARMUP_NS;
            end = start + (long) (seconds * 1e9);
            turn = end + TURN_REST_NS;
            RLock lock = type.getValue().apply("bench:shared:" + type.getKey());
            TimeUnit.NANOSECONDS.sleep(start - TURN_WARMUP_NS - System.nanoTime());
            List<Long> taken = new ArrayList<>();
            Callable<Long> part = () -> takes(lock);
            for (Future<Long> ended : executor.invokeAll(Collections.nCopies(threads, part))) {
                taken.add(ended.get());
            }
            answer.add("\"" + type.getKey() + "_least\":" + Collections.min(taken));
            answer.add("\"" + type.getKey() + "_sum\":" + taken.stream().mapToLong(Long::longValue).sum());
        }
        return answer.toString();
    }

    /** How often a thread of the shares had it in the counted time. */
    private long takes(RLock lock) throws InterruptedException {
        long taken = 0;
        while (System.nanoTime() < end) {
            lock.lock(LEASE_MS, TimeUnit.MILLISECONDS);
            long now = System.nanoTime();
            taken += now >= start && now < end ? 1 : 0;
            TimeUnit.MILLISECONDS.sleep(holdMs);
            lock.unlock();
            TimeUnit.MILLISECONDS.sleep(pauseMs);
        }
        return taken;
    }

    private void print(Samples samples) {
        Arrays.sort(samples.values, 0, samples.count);
        System.out.printf(Locale.ROOT,
            "{\"peer\":\"redisson\",\"version\":\"%s\",\"mode\":\"%s\",\"threads\":%d,\"locks\":%d,"
                + "\"seconds\":%.1f,\"count\":%d,\"per_second\":%.1f,"
                + "\"min_us\":%.1f,\"p50_us\":%.1f,\"p99_us\":%.1f}%n",
            Redisson.class.getPackage().getImplementationVersion(), mode, threads, locks, seconds, samples.count,
            samples.count / seconds, samples.us(0), samples.us(0.5), samples.us(0.99));
    }
}
