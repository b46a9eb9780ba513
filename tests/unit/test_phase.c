/* SPDX-License-Identifier: MIT */
/* test_phase.c - how far a call has come, a single lock's and a composite's: which phase may follow which. */
#include "core/call/phase.h"
#include "locks/composite/phase.h"

#include <criterion/criterion.h>

TestSuite(phase, .timeout = 10);

/* All of the way is allowed. */
static void assert_way(const enum rdl__phase *way, size_t n)
{
    for (size_t i = 1; i < n; i++)
        cr_assert(rdl__phase_follows(way[i - 1], way[i]), "%d does not follow %d", (int)way[i], (int)way[i - 1]);
}

#define assert_way(...)                                                                                                \
    assert_way((const enum rdl__phase[]){__VA_ARGS__},                                                                 \
               sizeof((enum rdl__phase[]){__VA_ARGS__}) / sizeof(enum rdl__phase))

Test(phase, an_uncontended_call_never_meets_the_loop)
{
    assert_way(RDL__BY_CALLER, RDL__ENDED);
}

Test(phase, a_call_that_waits_is_handed_over_and_tries_again)
{
    assert_way(RDL__BY_CALLER, RDL__HANDED, RDL__BY_LOOP, RDL__ASLEEP, RDL__BY_LOOP, RDL__SENT, RDL__BY_LOOP,
               RDL__PAUSING, RDL__BY_LOOP, RDL__ENDED);
}

Test(phase, a_call_that_a_fan_has_sent_is_its_callers_again_when_it_was_answered)
{
    assert_way(RDL__BY_CALLER, RDL__HANDED, RDL__BY_CALLER, RDL__ENDED);
    cr_assert_not(rdl__phase_follows(RDL__HANDED, RDL__ENDED));
}

Test(phase, a_queued_call_begins_on_the_loop_or_ends_where_it_is)
{
    assert_way(RDL__BY_CALLER, RDL__QUEUED, RDL__BY_LOOP);
    assert_way(RDL__QUEUED, RDL__ENDED);
    cr_assert_not(rdl__phase_follows(RDL__QUEUED, RDL__BY_CALLER));
}

Test(phase, what_the_loop_has_it_keeps)
{
    for (int from = RDL__BY_LOOP; from < RDL__ENDED; from++) {
        cr_assert(rdl__phase_is_loops((enum rdl__phase)from));
        for (int to = RDL__BY_CALLER; to <= RDL__HANDED; to++)
            cr_assert_not(rdl__phase_follows((enum rdl__phase)from, (enum rdl__phase)to));
    }
}

Test(phase, nothing_follows_the_end)
{
    for (int to = RDL__BY_CALLER; to <= RDL__ENDED; to++)
        cr_assert_not(rdl__phase_follows(RDL__ENDED, (enum rdl__phase)to));
}

Test(phase, what_waits_for_an_event_is_taken_up_before_it_goes_on)
{
    for (int from = RDL__SENT; from < RDL__ENDED; from++)
        for (int to = RDL__BY_CALLER; to <= RDL__ENDED; to++)
            cr_assert_eq(rdl__phase_follows((enum rdl__phase)from, (enum rdl__phase)to), to == RDL__BY_LOOP);
}

Test(phase, a_composites_call_goes_on_and_ends_once)
{
    static const enum rdl__composite_phase way[] = {RDL__COMPOSITE_QUEUED, RDL__COMPOSITE_BEGUN,
                                                    RDL__COMPOSITE_LISTENING, RDL__COMPOSITE_HAS_TURN};

    for (size_t from = 0; from < sizeof way / sizeof way[0]; from++) {
        for (size_t to = 0; to < sizeof way / sizeof way[0]; to++)
            cr_assert_eq(rdl__composite_phase_follows(way[from], way[to]), to == from + 1 || (from == 3 && to == 2));
        cr_assert(rdl__composite_phase_follows(way[from], RDL__COMPOSITE_ENDED));
        cr_assert_not(rdl__composite_phase_follows(RDL__COMPOSITE_ENDED, way[from]));
    }
    cr_assert_not(rdl__composite_phase_follows(RDL__COMPOSITE_ENDED, RDL__COMPOSITE_ENDED));
}
