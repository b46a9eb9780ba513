// SPDX-License-Identifier: MIT
package redlatch.peer;

import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.redisson.api.RLock;

/** Who takes part in work in bulk: for how long, how patiently, and what came of it. */
abstract class Participant {
    /** When it ends. */
    final long goal;
    /** How far this side may be ahead of the other. */
    final long streak;
    private final long leaseMs;
    private final long boundMs;
    long rounds;
    long overlaps;
    long crossings;

    /** From the next arguments: GOAL STREAK LEASE_MS BOUND_MS. */
    Participant(Arguments a) {
        goal = a.number();
        streak = a.number();
        leaseMs = a.number();
        boundMs = a.number();
    }

    /** Takes part until the end. */
    abstract void work() throws InterruptedException;

    /** The answer: "ROUNDS OVERLAPS CROSSINGS". */
    final String run() throws InterruptedException {
        work();
        return rounds + " " + overlaps + " " + crossings;
    }

    final void take(RLock lock) throws InterruptedException {
        if (!lock.tryLock(boundMs, leaseMs, TimeUnit.MILLISECONDS)) {
            throw new IllegalStateException("no lock within " + boundMs + " ms");
        }
    }

    /** Lets the other side have its rounds. */
    final void waitUntil(BooleanSupplier theyHadThem) throws InterruptedException {
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(boundMs);
        while (!theyHadThem.getAsBoolean()) {
            if (System.nanoTime() - end > 0) {
                throw new IllegalStateException("the other side had no round within " + boundMs + " ms");
            }
            Thread.sleep(1);
        }
    }
}
