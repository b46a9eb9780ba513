/* SPDX-License-Identifier: MIT */
/* test_addresses.c - N6: a name has several addresses, and not all of them lead to a server; and names that nobody
 * resolves.
 *
 * The program has a resolver of its own, which comes before the C library's: a name is what the test says it is, ports
 * included, or hangs until the test lets it go. An address that drops packets is a socket whose queue of connections is
 * full.
 */
#include "tests/live/live.h"
#include "tests/support/cluster.h"
#include "tests/support/guide.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#define NAME "found"
#define LEASE_MS 30000
#define PATIENT_MS 10000

static struct guide *guide;
static struct cluster *cluster;
static rdl_client_t *client;

static void fini(void)
{
    client = rdl_client_close(client);
    guide_stop(guide);
    cluster_stop(cluster);
    live_fini();
}

TestSuite(addresses, .fini = fini, .timeout = 60);

/* ---- the resolver ----------------------------------------------------------------------------------------------- */

#define ADDRESSES_MAX 16

/* "several.test" is these; names that begin with "hang" hang; numbers are themselves. */
static struct sockaddr_storage addresses[ADDRESSES_MAX];
static int address_count;
static atomic_bool hangs = true;
static atomic_int hanging, most_hanging;

static void add_address(const char *host, int port)
{
    struct sockaddr_storage *to = &addresses[address_count++];

    if (inet_pton(AF_INET, host, &((struct sockaddr_in *)to)->sin_addr) == 1) {
        to->ss_family = AF_INET;
        ((struct sockaddr_in *)to)->sin_port = htons((uint16_t)port);
    } else {
        cr_assert_eq(inet_pton(AF_INET6, host, &((struct sockaddr_in6 *)to)->sin6_addr), 1);
        to->ss_family = AF_INET6;
        ((struct sockaddr_in6 *)to)->sin6_port = htons((uint16_t)port);
    }
}

static struct addrinfo *append(struct addrinfo **at, const struct sockaddr_storage *address)
{
    struct addrinfo *a = *at = must_alloc(sizeof *a + sizeof *address);

    a->ai_family = address->ss_family;
    a->ai_socktype = SOCK_STREAM;
    a->ai_addrlen = address->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    a->ai_addr = memcpy(a + 1, address, sizeof *address);
    return a;
}

static int number(const char *host, const char *port, struct addrinfo **ret)
{
    struct sockaddr_storage to = {.ss_family = AF_INET};

    if (inet_pton(AF_INET, host, &((struct sockaddr_in *)&to)->sin_addr) != 1)
        return EAI_NONAME;
    ((struct sockaddr_in *)&to)->sin_port = htons((uint16_t)strtol(port, NULL, 10));
    (void)append(ret, &to);
    return 0;
}

static void hang(void)
{
    int n = atomic_fetch_add(&hanging, 1) + 1, most = atomic_load(&most_hanging);

    while (n > most && !atomic_compare_exchange_weak(&most_hanging, &most, n))
        ;
    while (atomic_load(&hangs))
        let_pass_ms(1);
    atomic_fetch_sub(&hanging, 1);
}

/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): in place of the C library's */
__attribute__((visibility("default"))) int getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                                                       struct addrinfo **ret)
{
    *ret = NULL;
    if ((hints->ai_flags & AI_NUMERICHOST) || strcmp(host, "several.test") != 0) {
        if (!(hints->ai_flags & AI_NUMERICHOST) && strncmp(host, "hang", 4) == 0)
            hang();
        return number(host, port, ret);
    }
    for (int i = 0; i < address_count; i++)
        ret = &append(ret, &addresses[i])->ai_next;
    return 0;
}

/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): in place of the C library's */
__attribute__((visibility("default"))) void freeaddrinfo(struct addrinfo *list)
{
    for (struct addrinfo *next; list != NULL; list = next) {
        next = list->ai_next;
        free(list);
    }
}

/* ---- addresses that lead nowhere -------------------------------------------------------------------------------- */

static int port_of(int fd)
{
    struct sockaddr_in at;
    socklen_t len = sizeof at;

    cr_assert_eq(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    return ntohs(at.sin_port);
}

/* Whoever connects is connected, by the kernel, to nobody. */
static int deaf_port(int queue)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    cr_assert(fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof at) == 0 && listen(fd, queue) == 0);
    return port_of(fd);
}

/* And to whom the queue has no room left packets get no answer at all. */
static int silent_port(void)
{
    int port = deaf_port(0);
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)port)};
    bool full = false;

    for (int i = 0; i < 8 && !full; i++) {
        struct pollfd fd = {.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), .events = POLLOUT};

        cr_assert_geq(fd.fd, 0);
        full = connect(fd.fd, (struct sockaddr *)&at, sizeof at) < 0 && poll(&fd, 1, 100) == 0;
    }
    cr_assert(full, "the queue does not get full");
    return port;
}

/* ---- where the server is ---------------------------------------------------------------------------------------- */

enum deployment { ONE_SERVER, SENTINELS_AND_MASTER, CLUSTER_OF_SIX, DEPLOYMENTS };

static char *start(enum deployment deployment, int *ret_port)
{
    const char *login;

    switch (deployment) {
    case ONE_SERVER:
        stage_open(&st, .server = {.tcp = true}, .client = OPTIONS(.lazy = true));
        *ret_port = server_port(st.server);
        return must_format("redis://%sseveral.test:1", server_login(st.server));
    case SENTINELS_AND_MASTER:
        guide = guide_start(NULL);
        *ret_port = proxy_port(guide->mouth);
        return must_format("sentinel://%sseveral.test:1/main", server_login(guide->data[0]));
    default:
        cluster = cluster_start(NULL);
        login = server_login(cluster->node[0]);
        *ret_port = cluster->port[0];
        return must_format("cluster://%sseveral.test:1", login);
    }
}

/* The first address is the one that is given; a server is at the second one. */
static void expect_reached(enum deployment deployment, int first, const rdl_client_options_t *options)
{
    rdl_lock_t *lock;
    int port;
    char *uri = start(deployment, &port);

    add_address("127.0.0.1", first);
    add_address("127.0.0.1", port);
    client = client_open(uri, options);
    lock = reentrant(client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, PATIENT_MS, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
    free(uri);
}

/* One attempt that is long enough for both; the first alone would take all of it. */
static void expect_reached_past_silence(enum deployment deployment)
{
    expect_reached(deployment, silent_port(), OPTIONS(.connect_timeout_ms = 8000));
}

Test(addresses, N6_silent_address_hides_no_server)
{
    expect_reached_past_silence(ONE_SERVER);
}

Test(addresses, N6_silent_address_hides_no_sentinel)
{
    expect_reached_past_silence(SENTINELS_AND_MASTER);
}

Test(addresses, N6_silent_address_hides_no_cluster)
{
    expect_reached_past_silence(CLUSTER_OF_SIX);
}

/* Nothing is answered to whoever greets: the next attempt goes on behind it. */
Test(addresses, N6_address_that_accepts_and_is_silent_hides_no_server)
{
    expect_reached(ONE_SERVER, deaf_port(64), OPTIONS(.connect_timeout_ms = 700, .reconnect_max_ms = 50, .lazy = true));
}

Test(addresses, N6_address_that_accepts_and_is_silent_hides_no_sentinel)
{
    expect_reached(SENTINELS_AND_MASTER, deaf_port(64),
                   OPTIONS(.connect_timeout_ms = 700, .reconnect_max_ms = 50, .lazy = true));
}

/* One family may have more addresses than are tried at all. */
Test(addresses, N6_a_family_that_leads_nowhere_hides_no_other)
{
    rdl_lock_t *lock;
    int port;
    char *uri = start(ONE_SERVER, &port);

    for (int i = 1; i <= 9; i++) {
        char *host = must_format("2001:db8::%d", i); /* for documents: nobody has it */

        add_address(host, port);
        free(host);
    }
    add_address("127.0.0.1", port);
    client = client_open(uri, NULL);
    lock = reentrant(client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, PATIENT_MS, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
    free(uri);
}

/* The connect time-out is shared by all: a short one leaves time for the last, in each attempt. */
Test(addresses, N6_the_last_of_many_is_reached_in_time)
{
    int port, silent = silent_port();
    char *uri = start(ONE_SERVER, &port);
    rdl_lock_t *lock;

    for (int i = 0; i < 7; i++)
        add_address("127.0.0.1", silent);
    add_address("127.0.0.1", port);
    client = client_open(uri, OPTIONS(.connect_timeout_ms = 1600, .reconnect_max_ms = 50, .lazy = true));
    lock = reentrant(client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, PATIENT_MS, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
    free(uri);
}

Test(addresses, N6_what_the_last_one_answered_is_told)
{
    int port;
    char *uri = start(ONE_SERVER, &port);

    add_address("127.0.0.1", dead_port());
    add_address("127.0.0.1", dead_port());
    expect(RDL_ECONN, rdl_client_open(uri, OPTIONS(.connect_timeout_ms = PATIENT_MS), &client, &err));
    cr_assert_not_null(strstr(err.message, "Connection refused"), "%s", err.message);
    free(uri);
}

/* ---- names ------------------------------------------------------------------------------------------------------ */

/* Attempts come again and again, and the resolver cannot be interrupted. */
Test(addresses, a_resolver_that_hangs_has_one_thread_a_name)
{
    rdl_client_t *lost;
    rdl_lock_t *lock;
    int64_t began;

    stage_open(&st);
    lost = client_open("redis://hang.test:1",
                       OPTIONS(.connect_timeout_ms = 50, .reconnect_min_ms = 1, .reconnect_max_ms = 10, .lazy = true));
    lock = reentrant(lost, NAME, NULL);
    expect(RDL_ECONN, rdl_try_lock(lock, 1000, LEASE_MS, &err));
    cr_assert_eq(atomic_load(&most_hanging), 1, "%d threads", atomic_load(&most_hanging));
    rdl_lock_free(lock);
    began = now_ms();
    rdl_client_close(lost);
    cr_assert_lt(now_ms() - began, SOON_MS);
    atomic_store(&hangs, false);
    cr_assert(WAIT_UNTIL(atomic_load(&hanging) == 0, SOON_MS));
}

Test(addresses, names_that_hang_hold_up_no_other)
{
    rdl_lock_t *lock;
    char *uri;

    guide = guide_start(NULL);
    add_address("127.0.0.1", proxy_port(guide->mouth));
    uri = must_format("sentinel://%shang1.test:1,hang2.test:1,hang3.test:1,hang4.test:1,several.test:1/main",
                      server_login(guide->data[0]));
    client = client_open(uri, OPTIONS(.connect_timeout_ms = PATIENT_MS));
    lock = reentrant(client, NAME, NULL);
    expect(RDL_OK, rdl_try_lock(lock, PATIENT_MS, LEASE_MS, &err));
    expect(RDL_OK, rdl_unlock(lock, &err));
    rdl_lock_free(lock);
    client = rdl_client_close(client);
    atomic_store(&hangs, false);
    cr_assert(WAIT_UNTIL(atomic_load(&hanging) == 0, SOON_MS));
    free(uri);
}
