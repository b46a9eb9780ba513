// SPDX-License-Identifier: MIT
package redlatch.peer;

import java.time.Duration;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RAtomicLong;
import org.redisson.api.RCountDownLatch;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RSemaphore;

/**
 * Semaphores of both kinds, and the latch.
 *
 * <pre>
 * semset    CLIENT NAME PERMITS              true or false
 * semtake   CLIENT NAME PERMITS WAIT_MS      true or false
 * semgive   CLIENT NAME PERMITS
 * semfree   CLIENT NAME                      how many
 * semrounds CLIENT NAME PERMITS ROUNDS MOST  how often more than MOST permits were out at once; test_semaphore.c does
 *                                            the same
 * idset     CLIENT NAME PERMITS              true or false
 * idtake    CLIENT NAME WAIT_MS LEASE_MS     the id, or none
 * idgive    CLIENT NAME ID                   true or false
 * idextend  CLIENT NAME ID LEASE_MS          true or false
 * idfree    CLIENT NAME                      how many
 * idrounds  CLIENT NAME ROUNDS MOST          as semrounds, one permit a round
 * latchset  CLIENT NAME COUNT                true or false
 * latchdown CLIENT NAME
 * latchwait CLIENT NAME WAIT_MS              true or false
 * </pre>
 */
final class Permits {
    private static final long BOUND_MS = 20000;

    private final Clients clients;

    Permits(Clients clients) {
        this.clients = clients;
    }

    void addVerbs(Map<String, Verb> verbs) {
        verbs.put("semset", a -> Boolean.toString(plain(a).trySetPermits((int) a.number())));
        verbs.put("semtake",
            a -> Boolean.toString(plain(a).tryAcquire((int) a.number(), Duration.ofMillis(a.number()))));
        verbs.put("semgive", a -> give(plain(a), (int) a.number()));
        verbs.put("semfree", a -> Integer.toString(plain(a).availablePermits()));
        verbs.put("semrounds", a -> plainRounds(a));
        verbs.put("idset", a -> Boolean.toString(leased(a).trySetPermits((int) a.number())));
        verbs.put("idtake", a -> String.valueOf(leased(a).tryAcquire(a.number(), a.number(), TimeUnit.MILLISECONDS)));
        verbs.put("idgive", a -> Boolean.toString(leased(a).tryRelease(a.text())));
        verbs.put("idextend",
            a -> Boolean.toString(leased(a).updateLeaseTime(a.text(), a.number(), TimeUnit.MILLISECONDS)));
        verbs.put("idfree", a -> Integer.toString(leased(a).availablePermits()));
        verbs.put("idrounds", a -> leasedRounds(a));
        verbs.put("latchset", a -> Boolean.toString(latch(a).trySetCount(a.number())));
        verbs.put("latchdown", a -> down(latch(a)));
        verbs.put("latchwait", a -> Boolean.toString(latch(a).await(a.number(), TimeUnit.MILLISECONDS)));
    }

    private RSemaphore plain(Arguments a) {
        return clients.get(a.text()).getSemaphore(a.text());
    }

    private RPermitExpirableSemaphore leased(Arguments a) {
        return clients.get(a.text()).getPermitExpirableSemaphore(a.text());
    }

    private RCountDownLatch latch(Arguments a) {
        return clients.get(a.text()).getCountDownLatch(a.text());
    }

    private static String give(RSemaphore semaphore, int permits) {
        semaphore.release(permits);
        return null;
    }

    private static String down(RCountDownLatch latch) {
        latch.countDown();
        return null;
    }

    private String plainRounds(Arguments a) throws InterruptedException {
        String client = a.text();
        String name = a.text();
        RSemaphore semaphore = clients.get(client).getSemaphore(name);
        RAtomicLong inside = clients.get(client).getAtomicLong(name + ":inside");
        int permits = (int) a.number();
        long rounds = a.number();
        long most = a.number();
        long violations = 0;

        for (long i = 0; i < rounds; i++) {
            if (!semaphore.tryAcquire(permits, Duration.ofMillis(BOUND_MS))) {
                throw new IllegalStateException("no permit within " + BOUND_MS + " ms");
            }
            violations += inside.addAndGet(permits) > most ? 1 : 0;
            inside.addAndGet(-permits);
            semaphore.release(permits);
        }
        return Long.toString(violations);
    }

    private String leasedRounds(Arguments a) throws InterruptedException {
        String client = a.text();
        String name = a.text();
        RPermitExpirableSemaphore semaphore = clients.get(client).getPermitExpirableSemaphore(name);
        RAtomicLong inside = clients.get(client).getAtomicLong(name + ":inside");
        long rounds = a.number();
        long most = a.number();
        long violations = 0;

        for (long i = 0; i < rounds; i++) {
            String id = semaphore.tryAcquire(BOUND_MS, BOUND_MS, TimeUnit.MILLISECONDS);
            if (id == null) {
                throw new IllegalStateException("no permit within " + BOUND_MS + " ms");
            }
            violations += inside.incrementAndGet() > most ? 1 : 0;
            inside.decrementAndGet();
            semaphore.release(id);
        }
        return Long.toString(violations);
    }
}
