/* workload.h - owners in several processes who take locks by turns and write to what each guards, while a test does harm.
 *
 * What a lock guards is a register in memory that all share. It takes a write only from whoever has a newer token than all
 * before, so a holder that was overtaken is seen there, whatever the library believes; and who was refused must be told by the
 * library that the hold is lost. Besides, each register counts who is inside at once: no harm that loses no write may bring
 * two together, but a failover that does lose one may, until the first is told.
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
};

struct workload_sum {
    int64_t rounds;   /* of holds that were given back in order */
    int64_t turns;    /* of those, after one of another process */
    int64_t refused;  /* writes that the register refused */
    int64_t strange;  /* of those, from holders whom the library let believe that all is well */
    int64_t overlaps; /* holders who found another one inside */
};

/* Where the test will have threads of its own, a proxy's for one, it starts the workload before them: its processes are forked, and
 * a sanitizer's locks might be held then. */
struct workload *workload_start(const struct workload_plan *plan);
void workload_begin(struct workload *w, const char *uri);

/* Is every lock held and given back `more` times from now on? */
bool workload_goes_on(struct workload *w, int64_t more, int64_t bound_ms);

/* End it: every owner gives back what it holds. Frees. */
struct workload_sum workload_stop(struct workload *w);

#endif
