/* SPDX-License-Identifier: MIT */
/* workload.h - owners in several processes who take locks by turns and write to what each guards, while a test does
 * harm.
 *
 * What a lock guards is a register in memory that all share. It takes a write only from whoever has a newer token than
 * all before, so a holder that was overtaken is seen there, whatever the library believes. And it knows who is inside:
 * a turn lasts from one write to another, and now and then, for up to 20 ms, longer than a write takes.
 *
 * No harm that loses no write may bring two together (`overlaps`) or have a write refused (`refused`). A failover that
 * does lose one may, from workload_harm to workload_calm: who has a hold that the new master does not know believes in
 * it until his client has heard of that master. So two who clash, by being inside at once or by a refused write, keep
 * their holds until one of them is told, by the state of his hold or when he gives it back. If none is, that is
 * `strange`, whatever was lost; if both began in calm it is `amiss`, whoever was told.
 *
 * A workload belongs to the test's main thread.
 */
#ifndef TESTS_SUPPORT_WORKLOAD_H
#define TESTS_SUPPORT_WORKLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WORKLOAD_LOCKS_MAX 16

struct workload;

struct workload_plan {
    const char *uri;          /* NULL: workload_begin says it */
    const char *const *names; /* of the locks, which are reentrant */
    size_t locks;
    int processes; /* each with a client of its own */
    int threads;   /* of each process, for each lock */
    /* The locks stay with their clients for so long (the lock option cache_ms). Then they have no tokens, and what is
     * watched is who is inside. 0: they do not. */
    int64_t cache_ms;
};

struct workload_sum {
    int64_t rounds;   /* of holds that were given back in order */
    int64_t turns;    /* of those, after one of another process */
    int64_t refused;  /* writes that the register refused */
    int64_t overlaps; /* holders who found another one inside */
    int64_t amiss;    /* pairs who clashed, and both of whom began in calm */
    int64_t strange;  /* pairs who clashed, and both of whom the library let believe that all is well */
};

/* Where the test will have threads of its own, a proxy's for one, it starts the workload before them: its processes are
 * forked, and a sanitizer's locks might be held then. */
struct workload *workload_start(const struct workload_plan *plan);
void workload_begin(struct workload *w, const char *uri);

/* Is every lock held and given back `more` times from now on? */
bool workload_goes_on(struct workload *w, int64_t more, int64_t bound_ms);

/* From here on writes may be lost: whoever was granted a lock may have company, until one of the two is told. */
void workload_harm(struct workload *w);

/* What could be lost is lost, and nobody is granted anything any more but by the one master. Who begins now is alone.
 */
void workload_calm(struct workload *w);

/* End it: every owner gives back what it holds. Frees. */
struct workload_sum workload_stop(struct workload *w);

#endif
