package redlatch.peer;

import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RAtomicLong;
import org.redisson.api.RBucket;
import org.redisson.api.RLock;
import org.redisson.client.codec.StringCodec;

/**
 * Work in bulk under a lock that others, in this process and elsewhere, work under as well; rounds.c is the same in C and
 * rounds.h says what a round is.
 *
 * <pre>
 * rounds CLIENT TYPE NAME GOAL STREAK LEASE_MS BOUND_MS    "ROUNDS OVERLAPS CROSSINGS"
 * </pre>
 */
final class Rounds {
    private static final String SIDE = "J";

    private final Locks locks;

    Rounds(Locks locks) {
        this.locks = locks;
    }

    void addVerbs(Map<String, Verb> verbs) {
        verbs.put("rounds", a -> new Participant(a).run());
    }

    /** The record of the rounds so far. */
    private record Last(long count, String side, long inARow) {
        static Last parse(String text) {
            String[] words = text.split(" ");
            return new Last(Long.parseLong(words[0]), words[1], Long.parseLong(words[2]));
        }

        Last next() {
            return new Last(count + 1, SIDE, side.equals(SIDE) ? inARow + 1 : 1);
        }

        @Override
        public String toString() {
            return count + " " + side + " " + inARow;
        }
    }

    private final class Participant {
        private final RLock lock;
        private final RAtomicLong inside;
        private final RBucket<String> record;
        private final long goal;
        private final long streak;
        private final long leaseMs;
        private final long boundMs;
        private long rounds;
        private long overlaps;
        private long crossings;

        Participant(Arguments a) {
            Locks.Named named = locks.take(a);
            lock = named.lock();
            inside = named.client().getAtomicLong(named.name() + ":inside");
            record = named.client().getBucket(named.name() + ":record", StringCodec.INSTANCE);
            goal = a.number();
            streak = a.number();
            leaseMs = a.number();
            boundMs = a.number();
        }

        String run() throws InterruptedException {
            for (Last last = round(); last.count < goal; last = round()) {
                if (last.inARow >= streak) {
                    letOthers();
                }
            }
            return rounds + " " + overlaps + " " + crossings;
        }

        /** One round, or none when the goal was reached before; returns the record as it is then. */
        private Last round() throws InterruptedException {
            if (!lock.tryLock(boundMs, leaseMs, TimeUnit.MILLISECONDS)) {
                throw new IllegalStateException("no lock within " + boundMs + " ms");
            }
            try {
                if (inside.incrementAndGet() != 1) {
                    overlaps++;
                }
                Last last = Last.parse(record.get());
                if (last.count < goal) {
                    crossings += last.side.equals(SIDE) ? 0 : 1;
                    rounds++;
                    last = last.next();
                    record.set(last.toString());
                }
                inside.decrementAndGet();
                return last;
            } finally {
                lock.unlock();
            }
        }

        private void letOthers() throws InterruptedException {
            long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(boundMs);
            Last last = Last.parse(record.get());
            while (last.side.equals(SIDE) && last.count < goal) {
                if (System.nanoTime() - end > 0) {
                    throw new IllegalStateException("the other side had no round within " + boundMs + " ms");
                }
                Thread.sleep(1);
                last = Last.parse(record.get());
            }
        }
    }
}
