// SPDX-License-Identifier: MIT
package redlatch.peer;

import java.util.Map;
import org.redisson.api.RAtomicLong;
import org.redisson.api.RBucket;
import org.redisson.api.RLock;
import org.redisson.client.codec.StringCodec;

/**
 * Work in bulk under a lock that others, in this process and elsewhere, work under as well; rounds.c is the same in C
 * and rounds.h says what a round is.
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
        verbs.put("rounds", a -> new Holder(locks.take(a), a).run());
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

    private static final class Holder extends Participant {
        private final RLock lock;
        private final RAtomicLong inside;
        private final RBucket<String> record;

        Holder(Locks.Named named, Arguments a) {
            super(a);
            lock = named.lock();
            inside = named.client().getAtomicLong("{" + named.name() + "}:inside");
            record = named.client().getBucket("{" + named.name() + "}:record", StringCodec.INSTANCE);
        }

        @Override
        void work() throws InterruptedException {
            for (Last last = round(); last.count < goal; last = round()) {
                if (last.inARow >= streak) {
                    waitUntil(this::othersHadOne);
                }
            }
        }

        /** One round, or none when the goal was reached before; returns the record as it is then. */
        private Last round() throws InterruptedException {
            take(lock);
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

        private boolean othersHadOne() {
            Last last = Last.parse(record.get());
            return !last.side.equals(SIDE) || last.count >= goal;
        }
    }
}
