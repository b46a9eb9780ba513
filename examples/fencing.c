/* SPDX-License-Identifier: MIT */
/* fencing.c - what is guarded refuses who is late: an account that compares tokens.
 *
 *     fencing redis://127.0.0.1:6379
 *
 * A holder that stands still for longer than its lease cannot know it before it writes. The lock keeps two from working
 * at the same time as long as nothing goes wrong. The account, which compares and writes in one step, keeps the older
 * one's work out whatever goes wrong. */
#include <redlatch/redlatch.h>
#include <stdbool.h>
#include <stdio.h>

struct account {
    int64_t token; /* the highest that has written */
    int64_t balance;
};

/* Of the row in a database: UPDATE account SET balance = $1, token = $2 WHERE id = $3 AND token <= $2
 * False: somebody who took the lock later has written already. */
static bool account_write(struct account *account, int64_t token, int64_t balance)
{
    if (token < account->token)
        return false;
    account->token = token;
    account->balance = balance;
    return true;
}

/* UPDATE account SET balance = $1, token = token + 1 WHERE id = $2 AND token = $3
 * False: somebody has written since the caller saw `token`. */
static bool account_replace(struct account *account, int64_t token, int64_t balance)
{
    if (token != account->token)
        return false;
    account->token++;
    account->balance = balance;
    return true;
}

/* No lock at all: who was overtaken looks again, and works again. */
static void deposit(struct account *account, struct account seen, int64_t amount)
{
    while (!account_replace(account, seen.token, seen.balance + amount))
        seen = *account;
}

/* Take the lock as `owner`. Returns the token, which goes with every write. */
static int64_t begin(rdl_lock_t *lock, rdl_owner_t *owner, int64_t lease_ms, rdl_err_t *err)
{
    int rc = rdl_owner_bind(owner, err);

    if (rc == RDL_OK)
        rc = rdl_try_lock(lock, 10000, lease_ms, err);
    return rc == RDL_OK ? rdl_token(lock, err) : rc;
}

/* The first stands still while its lease of 200 ms ends. The second waits until then, and writes. */
static bool be_late(rdl_lock_t *lock, rdl_owner_t *first, rdl_owner_t *second, rdl_err_t *err)
{
    struct account account = {.token = 0};
    int64_t older, newer;

    if ((older = begin(lock, first, 200, err)) < 0 || (newer = begin(lock, second, 10000, err)) < 0) {
        fprintf(stderr, "fencing: %s\n", err->message);
        return false;
    }
    if (!account_write(&account, newer, 20) || account_write(&account, older, 10)) {
        fprintf(stderr, "fencing: %lld is no earlier token than %lld\n", (long long)older, (long long)newer);
        return false;
    }
    printf("token %lld was too late: %lld had written\n", (long long)older, (long long)newer);
    return rdl_unlock(lock, err) == RDL_OK;
}

static bool do_without(void)
{
    struct account account = {.token = 7, .balance = 40};
    struct account seen = account;

    deposit(&account, seen, 1);
    deposit(&account, seen, 1); /* has seen what stood there before the first */
    return account.balance == 42;
}

int main(int argc, char **argv)
{
    rdl_owner_t *first = NULL, *second = NULL;
    rdl_client_t *client = NULL;
    rdl_lock_t *lock = NULL;
    rdl_err_t err;
    bool ok = false;

    if (rdl_client_open(argc > 1 ? argv[1] : "redis://127.0.0.1:6379", NULL, &client, &err) < 0 ||
        rdl_owner_new(client, &first, &err) < 0 || rdl_owner_new(client, &second, &err) < 0 ||
        rdl_fenced_lock(client, "account:4", NULL, &lock, &err) < 0)
        fprintf(stderr, "fencing: %s\n", err.message);
    else
        ok = be_late(lock, first, second, &err) && do_without();
    rdl_owner_unbind(client);
    rdl_lock_free(lock);
    rdl_owner_free(first);
    rdl_owner_free(second);
    rdl_client_close(client);
    return !ok;
}
