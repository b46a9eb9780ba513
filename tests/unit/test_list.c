/* SPDX-License-Identifier: MIT */
/* test_list.c - the intrusive list. */
#include "core/base/list.h"

#include <criterion/criterion.h>

struct item {
    int value;
    struct rdl__link link;
};

static struct rdl__link head;
static struct item items[6];

static void set_up(void)
{
    rdl__list_init(&head);
    for (int i = 0; i < 6; i++) {
        items[i].value = i;
        rdl__list_init(&items[i].link);
    }
}

/* Take everything off the list; its values as the digits of a number. */
static int drain(struct rdl__link *list)
{
    int digits = 0;

    for (struct rdl__link *l; (l = rdl__list_pop(list)) != NULL;)
        digits = digits * 10 + rdl__container(l, struct item, link)->value;
    return digits;
}

TestSuite(list, .init = set_up, .timeout = 10);

Test(list, empty_gives_nothing)
{
    cr_assert(rdl__list_empty(&head));
    cr_assert_null(rdl__list_first(&head));
    cr_assert_null(rdl__list_pop(&head));
}

Test(list, keeps_order_from_both_ends)
{
    rdl__list_push_back(&head, &items[2].link);
    rdl__list_push_back(&head, &items[3].link);
    rdl__list_push_front(&head, &items[1].link);
    rdl__list_insert_before(&items[3].link, &items[5].link);
    cr_assert_eq(rdl__list_first(&head), &items[1].link);
    cr_assert_eq(drain(&head), 1253);
    cr_assert(rdl__list_empty(&head));
}

Test(list, link_knows_whether_it_is_on_a_list)
{
    cr_assert_not(rdl__link_on(&items[1].link));
    rdl__list_push_back(&head, &items[1].link);
    cr_assert(rdl__link_on(&items[1].link));
    rdl__list_remove(&items[1].link);
    cr_assert_not(rdl__link_on(&items[1].link));
    rdl__list_remove(&items[1].link);
    cr_assert(rdl__list_empty(&head));
}

Test(list, splice_puts_all_in_front_in_order)
{
    struct rdl__link other;

    rdl__list_init(&other);
    for (int i = 1; i <= 2; i++)
        rdl__list_push_back(&head, &items[i].link);
    rdl__list_splice_front(&head, &other);
    for (int i = 3; i <= 5; i++)
        rdl__list_push_back(&other, &items[i].link);
    rdl__list_splice_front(&head, &other);
    cr_assert(rdl__list_empty(&other));
    cr_assert_eq(drain(&head), 34512);
}
