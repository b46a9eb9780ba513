// SPDX-License-Identifier: MIT
package redlatch.peer;

import java.util.Map;
import org.redisson.api.RAtomicLong;
import org.redisson.api.RLock;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RedissonClient;

/**
 * Reading and writing in bulk under a read-write lock that others use as well; mixed.c is the same in C and mixed.h
 * says what a round is.
 *
 * <pre>
 * mixed CLIENT NAME GOAL STREAK LEASE_MS BOUND_MS    "ROUNDS OVERLAPS CROSSINGS"
 * </pre>
 */
final class Mixed {
    private final Clients clients;

    Mixed(Clients clients) {
        this.clients = clients;
    }

    void addVerbs(Map<String, Verb> verbs) {
        verbs.put("mixed", a -> new Reader(clients.get(a.text()), a.text(), a).run());
    }

    private static final class Reader extends Participant {
        private final RLock read;
        private final RLock write;
        private final RAtomicLong writers;
        private final RAtomicLong readers;
        private final RAtomicLong left;
        private final RAtomicLong right;
        private final RAtomicLong writes;
        private final RAtomicLong ours;
        private final RAtomicLong theirs;

        Reader(RedissonClient client, String name, Arguments a) {
            super(a);
            RReadWriteLock lock = client.getReadWriteLock(name);
            read = lock.readLock();
            write = lock.writeLock();
            writers = client.getAtomicLong("{" + name + "}:writers");
            readers = client.getAtomicLong("{" + name + "}:readers");
            left = client.getAtomicLong("{" + name + "}:left");
            right = client.getAtomicLong("{" + name + "}:right");
            writes = client.getAtomicLong("{" + name + "}:writes");
            ours = client.getAtomicLong("{" + name + "}:J");
            theirs = client.getAtomicLong("{" + name + "}:C");
        }

        @Override
        void work() throws InterruptedException {
            long seen = -1;
            while (!over()) {
                if (rounds % 3 == 0) {
                    writeRound(rounds % 2 == 0);
                } else {
                    readRound();
                }
                rounds++;
                long mine = ours.incrementAndGet();
                long others = theirs.get();
                crossings += others == seen ? 0 : 1;
                seen = others;
                waitUntil(() -> mine <= theirs.get() + streak || over());
            }
        }

        private boolean over() {
            return ours.get() + theirs.get() >= goal;
        }

        private void look() {
            readers.incrementAndGet();
            if (writers.get() != 0 || left.get() != right.get()) {
                overlaps++;
            }
            readers.decrementAndGet();
        }

        private void readRound() throws InterruptedException {
            take(read);
            try {
                look();
            } finally {
                read.unlock();
            }
        }

        private void writeRound(boolean readsOn) throws InterruptedException {
            take(write);
            if (writers.incrementAndGet() != 1 || readers.get() != 0) {
                overlaps++;
            }
            left.set(left.get() + 1);
            right.set(right.get() + 1);
            writes.incrementAndGet();
            if (readsOn) {
                take(read);
            }
            writers.decrementAndGet();
            write.unlock();
            if (readsOn) {
                look();
                read.unlock();
            }
        }
    }
}
