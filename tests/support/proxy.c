/* SPDX-License-Identifier: MIT */
/* proxy.c - the proxy's sockets, its thread and the interface; see proxy.h and proxy_impl.h. */
#include "tests/support/proxy_impl.h"
#include "tests/support/wait.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* ---- sockets ---------------------------------------------------------------------------------------------------- */

static void make_listener(struct proxy *p)
{
    int one = 1;

    p->listener = socket(p->here.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (p->here.any.sa_family == AF_UNIX)
        (void)unlink(p->here.local.sun_path);
    else /* it is bound already, by port_fd */
        (void)setsockopt(p->listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (p->listener < 0 || bind(p->listener, &p->here.any, p->here_len) < 0 || listen(p->listener, 1024) < 0)
        die("proxy: cannot listen: %s", strerror(errno));
}

static void prepare(int fd)
{
    int one = 1;

    (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one); /* refused on a unix socket: fine */
}

static bool is_barred(const struct proxy *p, in_addr_t source)
{
    for (int i = 0; i < MAX_BARRED; i++)
        if (p->barred[i] != 0 && p->barred[i] == source)
            return true;
    return false;
}

static void accept_one(struct proxy *p)
{
    union address from = {0};
    socklen_t from_len = sizeof from;
    int client = accept4(p->listener, &from.any, &from_len, SOCK_CLOEXEC);
    in_addr_t source = from.any.sa_family == AF_INET ? from.tcp.sin_addr.s_addr : 0;
    int server;
    struct link *link;

    if (client < 0)
        return;
    p->accepted++;
    pthread_cond_broadcast(&p->happened);
    if (is_barred(p, source)) {
        close(client);
        return;
    }
    server = socket(p->there.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (server < 0 || connect(server, &p->there.any, p->there_len) < 0) { /* at once: the server is on this machine */
        if (server >= 0)
            close(server);
        close(client);
        return;
    }
    prepare(client);
    prepare(server);
    link = must_alloc(sizeof *link);
    link->source = source;
    link->client = client;
    link->server = server;
    link->last = &link->first;
    lane_init(&link->up, PROXY_TO_SERVER, client, server);
    lane_init(&link->down, PROXY_TO_CLIENT, server, client);
    link->next = p->links;
    p->links = link;
}

static void free_link(struct link *link)
{
    if (link->client >= 0)
        close(link->client);
    if (link->server >= 0)
        close(link->server);
    lane_done(&link->up);
    lane_done(&link->down);
    while (link->first != NULL)
        drop_first_awaited(link);
    free(link);
}

static void read_lane(struct proxy *p, struct link *link, struct lane *lane)
{
    char chunk[65536];
    ssize_t n = read(lane->from, chunk, sizeof chunk);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        lane->ended = true;
        if (lane->in.len > 0) /* part of a frame: it was sent, so it arrives */
            queue_piece(p, lane, lane->in.at, lane->in.len, NO_RULE, false);
        bytes_drop(&lane->in, lane->in.len);
        return;
    }
    bytes_add(&lane->in, chunk, (size_t)n);
    take_frames(p, link, lane);
}

static bool may_go(struct proxy *p, const struct lane *lane, int64_t now)
{
    return lane->first != NULL && lane->first->held_by == NO_RULE && lane->first->due_us <= now &&
           !way_of(p, lane)->frozen;
}

static void cut_link(struct proxy *p, struct link *link)
{
    link->broken = true;
    p->cuts++;
    pthread_cond_broadcast(&p->happened);
}

static void write_lane(struct proxy *p, struct link *link, struct lane *lane)
{
    int64_t now = now_us();

    while (may_go(p, lane, now)) {
        struct piece *piece = lane->first;
        ssize_t n = send(lane->to, piece->at + piece->sent, piece->len - piece->sent, MSG_NOSIGNAL);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n < 0) /* nobody is there any more: the bytes are lost, as they would be */
            n = (ssize_t)(piece->len - piece->sent);
        piece->sent += (size_t)n;
        if (piece->sent < piece->len)
            return;
        if (piece->cut_after) {
            cut_link(p, link);
            return;
        }
        drop_first_piece(lane);
    }
}

/* Pass an end on once all that came before it has gone. */
static void pass_ends(struct link *link)
{
    if (link->up.ended && link->up.first == NULL) {
        if (link->server >= 0)
            (void)shutdown(link->server, SHUT_WR);
        else
            link->broken = true; /* both sides are gone */
    }
    if (link->down.ended && link->down.first == NULL)
        link->broken = true;
}

/* ---- the thread ------------------------------------------------------------------------------------------------- */

/* What to wait for on the descriptors of one link; returns when its next piece is due, or INT64_MAX. */
static int64_t link_interest(struct proxy *p, struct link *link, struct pollfd *client, struct pollfd *server,
                             int64_t now)
{
    struct lane *lanes[2] = {&link->up, &link->down};
    struct pollfd *fds[2] = {client, server};
    int64_t due = INT64_MAX;

    *client = (struct pollfd){.fd = link->client};
    *server = (struct pollfd){.fd = link->server};
    for (int i = 0; i < 2; i++) {
        struct lane *lane = lanes[i];

        if (lane->from >= 0 && !lane->ended && !way_of(p, lane)->frozen)
            fds[i]->events |= POLLIN;
        if (may_go(p, lane, now))
            fds[1 - i]->events |= POLLOUT;
        else if (lane->first != NULL && lane->first->held_by == NO_RULE && !way_of(p, lane)->frozen &&
                 lane->first->due_us < due)
            due = lane->first->due_us;
    }
    /* poll reports a hang-up even when nothing was asked; a descriptor that nobody wants to hear of is left out */
    for (int i = 0; i < 2; i++)
        fds[i]->fd = fds[i]->events != 0 ? fds[i]->fd : -1;
    return due;
}

static size_t count_links(const struct proxy *p)
{
    size_t n = 0;

    for (const struct link *link = p->links; link != NULL; link = link->next)
        n++;
    return n;
}

/* Close the server's side and forget what was on its way. From here on the client speaks to nobody. */
static void orphan(struct link *link)
{
    close(link->server);
    link->server = link->up.to = link->down.from = -1;
    link->up.lost = true;
    lane_empty(&link->up);
    lane_empty(&link->down);
}

/* Close the client's side, as if it had closed. What the server answers goes nowhere. */
static void abandon(struct link *link)
{
    close(link->client);
    link->client = link->up.from = link->down.to = -1;
    link->up.ended = true;
    link->down.lost = true;
    bytes_drop(&link->up.in, link->up.in.len);
    while (link->down.first != NULL)
        drop_first_piece(&link->down);
}

static void serve_link(struct proxy *p, struct link *link, const struct pollfd *client, const struct pollfd *server)
{
    if (link->orphaned && link->server >= 0)
        orphan(link);
    if (link->abandoned && link->client >= 0)
        abandon(link);
    if (link->client >= 0 && client->revents != 0 && (client->events & POLLIN) != 0)
        read_lane(p, link, &link->up);
    if (link->server >= 0 && server->revents != 0 && (server->events & POLLIN) != 0)
        read_lane(p, link, &link->down);
    write_lane(p, link, &link->up);
    if (!link->broken)
        write_lane(p, link, &link->down);
    pass_ends(link);
}

static void sweep_broken(struct proxy *p)
{
    for (struct link **at = &p->links; *at != NULL;) {
        struct link *link = *at;

        if (!link->broken) {
            at = &link->next;
            continue;
        }
        *at = link->next;
        free_link(link);
    }
}

/* Sleep until something is ready or due. @locks mu held, given up during the sleep */
static void sleep_on(struct proxy *p, struct pollfd *fds, size_t n, int64_t due)
{
    int64_t left = due == INT64_MAX ? 0 : due - now_us();
    struct timespec wait = {.tv_sec = left > 0 ? left / 1000000 : 0, .tv_nsec = left > 0 ? left % 1000000 * 1000 : 0};

    pthread_mutex_unlock(&p->mu);
    (void)ppoll(fds, n, due == INT64_MAX ? NULL : &wait, NULL);
    pthread_mutex_lock(&p->mu);
}

static void *run(void *arg)
{
    struct proxy *p = arg;
    struct pollfd *fds = NULL;
    uint64_t rung;

    pthread_mutex_lock(&p->mu);
    while (!p->end) {
        size_t n = 2;
        int64_t now = now_us();
        int64_t due = INT64_MAX;
        struct link *link;

        fds = must_realloc(fds, (2 + 2 * count_links(p)) * sizeof *fds);
        fds[0] = (struct pollfd){.fd = p->bell, .events = POLLIN};
        fds[1] = (struct pollfd){.fd = p->listener, .events = POLLIN};
        for (link = p->links; link != NULL; link = link->next, n += 2) {
            int64_t its = link_interest(p, link, &fds[n], &fds[n + 1], now);

            due = its < due ? its : due;
        }
        sleep_on(p, fds, n, due);
        if (fds[0].revents != 0)
            (void)!read(p->bell, &rung, sizeof rung);
        /* Only this thread adds and removes links, so the list is the one that was polled. */
        n = 2;
        for (link = p->links; link != NULL; link = link->next, n += 2)
            serve_link(p, link, &fds[n], &fds[n + 1]);
        sweep_broken(p);
        if (fds[1].revents != 0 && p->listener >= 0)
            accept_one(p);
    }
    pthread_mutex_unlock(&p->mu);
    free(fds);
    return NULL;
}

/* ---- the interface ---------------------------------------------------------------------------------------------- */

/* @locks mu held; gives it up */
static void unlock_and_ring(struct proxy *p)
{
    uint64_t one = 1;

    pthread_mutex_unlock(&p->mu);
    (void)!write(p->bell, &one, sizeof one);
}

static void set_ports(struct proxy *p, int port)
{
    p->here.tcp = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    p->there = p->here;
    p->here.tcp.sin_port = htons((uint16_t)reserve_port(&p->port_fd));
    p->there.tcp.sin_port = htons((uint16_t)port);
    p->here_len = p->there_len = sizeof p->here.tcp;
}

static void set_addresses(struct proxy *p, const struct server *s)
{
    static unsigned number;

    if (server_port(s) != 0) {
        set_ports(p, server_port(s));
        return;
    }
    p->here.local = (struct sockaddr_un){.sun_family = AF_UNIX};
    p->there.local = p->here.local;
    (void)snprintf(p->here.local.sun_path, sizeof p->here.local.sun_path, "%s/proxy%u.sock", server_dir(s), number++);
    (void)snprintf(p->there.local.sun_path, sizeof p->there.local.sun_path, "%s", server_socket(s));
    p->here_len = p->there_len = sizeof p->here.local;
}

static char *uri_of(const struct proxy *p, const struct server *s)
{
    const char *who = server_login(s);

    return server_port(s) != 0 ? must_format("redis://%s127.0.0.1:%d", who, ntohs(p->here.tcp.sin_port))
                               : must_format("unix:%s%s%s", who[0] != '\0' ? "//" : "", who, p->here.local.sun_path);
}

/* Its addresses are set. */
static void begin(struct proxy *p)
{
    p->to_server.cut_after = p->to_client.cut_after = UNLIMITED;
    pthread_mutex_init(&p->mu, NULL);
    cond_init(&p->happened);
    if ((p->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0 || pthread_create(&p->thread, NULL, run, p) != 0)
        die("proxy: cannot start: %s", strerror(errno));
}

struct proxy *proxy_start(const struct server *s)
{
    struct proxy *p = must_alloc(sizeof *p);

    set_addresses(p, s);
    make_listener(p);
    p->uri = uri_of(p, s);
    begin(p);
    return p;
}

struct proxy *proxy_start_blind(int port)
{
    struct proxy *p = must_alloc(sizeof *p);

    p->blind = true;
    set_ports(p, port);
    make_listener(p);
    begin(p);
    return p;
}

void proxy_stop(struct proxy *p)
{
    if (p == NULL)
        return;
    pthread_mutex_lock(&p->mu);
    p->end = true;
    unlock_and_ring(p);
    pthread_join(p->thread, NULL);
    for (struct link *link = p->links; link != NULL; link = link->next)
        link->broken = true;
    sweep_broken(p);
    for (int i = 0; i < p->rule_count; i++) {
        free((char *)p->rules[i].is.command);
        free((char *)p->rules[i].is.contains);
        free((char *)p->rules[i].is.answer);
    }
    if (p->listener >= 0)
        close(p->listener);
    if (p->here.any.sa_family == AF_INET)
        close(p->port_fd);
    close(p->bell);
    pthread_mutex_destroy(&p->mu);
    pthread_cond_destroy(&p->happened);
    free(p->uri);
    free(p);
}

const char *proxy_uri(const struct proxy *p)
{
    return p->uri;
}

int proxy_port(const struct proxy *p)
{
    return ntohs(p->here.tcp.sin_port);
}

void proxy_bar(struct proxy *p, const char *address, bool on)
{
    in_addr_t source = inet_addr(address);
    int place = 0;

    pthread_mutex_lock(&p->mu);
    while (place < MAX_BARRED && p->barred[place] != (on ? 0 : source))
        place++;
    if (place == MAX_BARRED)
        die("proxy: %s cannot be %s", address, on ? "barred" : "let in: it is not barred");
    p->barred[place] = on ? source : 0;
    for (struct link *link = p->links; link != NULL; link = link->next)
        link->broken = link->broken || is_barred(p, link->source);
    unlock_and_ring(p);
}

static char *copy_of(const char *text)
{
    return text != NULL ? must_format("%s", text) : NULL;
}

int proxy_rule(struct proxy *p, const struct proxy_rule *rule)
{
    struct rule new = {.is = *rule};
    int number;

    new.is.command = copy_of(rule->command);
    new.is.answer = copy_of(rule->answer);
    if (rule->contains != NULL) {
        char *bytes;

        new.is.contains_len = rule->contains_len != 0 ? rule->contains_len : strlen(rule->contains);
        bytes = must_alloc(new.is.contains_len + 1);
        memcpy(bytes, rule->contains, new.is.contains_len);
        new.is.contains = bytes;
    }
    new.is.nth = rule->nth != 0 ? rule->nth : 1;
    pthread_mutex_lock(&p->mu);
    if (p->rule_count == MAX_RULES)
        die("proxy: more than %d rules", MAX_RULES);
    number = p->rule_count++;
    p->rules[number] = new;
    pthread_mutex_unlock(&p->mu);
    return number;
}

unsigned proxy_acted(struct proxy *p, int rule)
{
    unsigned n;

    pthread_mutex_lock(&p->mu);
    n = p->rules[rule].acted;
    pthread_mutex_unlock(&p->mu);
    return n;
}

/* Wait until a counter under mu has reached n. */
static bool wait_counter(struct proxy *p, const unsigned *counter, unsigned n, int64_t bound_ms)
{
    struct timespec end = until_ms(bound_ms);
    bool in_time = true;
    bool met;

    pthread_mutex_lock(&p->mu);
    while (!(met = *counter >= n) && in_time)
        in_time = pthread_cond_timedwait(&p->happened, &p->mu, &end) == 0;
    pthread_mutex_unlock(&p->mu);
    return met;
}

bool proxy_wait(struct proxy *p, int rule, unsigned times, int64_t bound_ms)
{
    return wait_counter(p, &p->rules[rule].acted, times, bound_ms);
}

static void let_lane_go(struct lane *lane, int rule)
{
    for (struct piece *piece = lane->first; piece != NULL; piece = piece->next) {
        if (piece->held_by == rule)
            piece->held_by = NO_RULE;
    }
}

void proxy_let_go(struct proxy *p, int rule)
{
    pthread_mutex_lock(&p->mu);
    p->rules[rule].gone = true;
    for (struct link *link = p->links; link != NULL; link = link->next) {
        let_lane_go(&link->up, rule);
        let_lane_go(&link->down, rule);
    }
    unlock_and_ring(p);
}

void proxy_delay(struct proxy *p, enum proxy_way ways, int64_t ms)
{
    pthread_mutex_lock(&p->mu);
    if ((ways & PROXY_TO_SERVER) != 0)
        p->to_server.delay_us = ms * 1000;
    if ((ways & PROXY_TO_CLIENT) != 0)
        p->to_client.delay_us = ms * 1000;
    unlock_and_ring(p);
}

static void set_frozen(struct proxy *p, enum proxy_way ways, bool frozen)
{
    pthread_mutex_lock(&p->mu);
    if ((ways & PROXY_TO_SERVER) != 0)
        p->to_server.frozen = frozen;
    if ((ways & PROXY_TO_CLIENT) != 0)
        p->to_client.frozen = frozen;
    unlock_and_ring(p);
}

void proxy_freeze(struct proxy *p, enum proxy_way ways)
{
    set_frozen(p, ways, true);
}

void proxy_thaw(struct proxy *p, enum proxy_way ways)
{
    set_frozen(p, ways, false);
}

void proxy_swallow(struct proxy *p, enum proxy_way ways, bool on)
{
    pthread_mutex_lock(&p->mu);
    if ((ways & PROXY_TO_SERVER) != 0)
        p->to_server.swallow = on;
    if ((ways & PROXY_TO_CLIENT) != 0)
        p->to_client.swallow = on;
    unlock_and_ring(p);
}

static bool is_of(const struct link *link, enum proxy_which which)
{
    return which == PROXY_ALL || link->subscriber == (which == PROXY_SUBSCRIBERS);
}

void proxy_cut(struct proxy *p, enum proxy_which which)
{
    pthread_mutex_lock(&p->mu);
    for (struct link *link = p->links; link != NULL; link = link->next) {
        if (!link->broken && is_of(link, which))
            cut_link(p, link);
    }
    unlock_and_ring(p);
}

void proxy_cut_server_side(struct proxy *p, enum proxy_which which)
{
    pthread_mutex_lock(&p->mu);
    for (struct link *link = p->links; link != NULL; link = link->next) {
        if (link->orphaned || !is_of(link, which))
            continue;
        link->orphaned = true;
        p->cuts++;
    }
    pthread_cond_broadcast(&p->happened);
    unlock_and_ring(p);
}

void proxy_cut_client_side(struct proxy *p, enum proxy_which which)
{
    pthread_mutex_lock(&p->mu);
    for (struct link *link = p->links; link != NULL; link = link->next) {
        if (link->abandoned || !is_of(link, which))
            continue;
        link->abandoned = true;
        p->cuts++;
    }
    pthread_cond_broadcast(&p->happened);
    unlock_and_ring(p);
}

void proxy_cut_after(struct proxy *p, enum proxy_way way, size_t bytes)
{
    pthread_mutex_lock(&p->mu);
    if ((way & PROXY_TO_SERVER) != 0)
        p->to_server.cut_after = bytes;
    if ((way & PROXY_TO_CLIENT) != 0)
        p->to_client.cut_after = bytes;
    unlock_and_ring(p);
}

void proxy_refuse(struct proxy *p, bool on)
{
    pthread_mutex_lock(&p->mu);
    if (on && p->listener >= 0) {
        (void)shutdown(p->listener, SHUT_RDWR); /* at once: as long as the thread polls it, closing it does nothing */
        close(p->listener);
        p->listener = -1;
    } else if (!on && p->listener < 0) {
        make_listener(p);
    }
    unlock_and_ring(p);
}

static unsigned read_counter(struct proxy *p, const unsigned *counter)
{
    unsigned n;

    pthread_mutex_lock(&p->mu);
    n = *counter;
    pthread_mutex_unlock(&p->mu);
    return n;
}

unsigned proxy_accepted(struct proxy *p)
{
    return read_counter(p, &p->accepted);
}

unsigned proxy_cuts(struct proxy *p)
{
    return read_counter(p, &p->cuts);
}

unsigned proxy_open(struct proxy *p)
{
    unsigned n;

    pthread_mutex_lock(&p->mu);
    n = (unsigned)count_links(p);
    pthread_mutex_unlock(&p->mu);
    return n;
}

uint64_t proxy_requests(struct proxy *p)
{
    uint64_t n;

    pthread_mutex_lock(&p->mu);
    n = p->requests;
    pthread_mutex_unlock(&p->mu);
    return n;
}

uint64_t proxy_replies(struct proxy *p)
{
    uint64_t n;

    pthread_mutex_lock(&p->mu);
    n = p->replies;
    pthread_mutex_unlock(&p->mu);
    return n;
}

bool proxy_wait_accepted(struct proxy *p, unsigned n, int64_t bound_ms)
{
    return wait_counter(p, &p->accepted, n, bound_ms);
}

bool proxy_wait_cuts(struct proxy *p, unsigned n, int64_t bound_ms)
{
    return wait_counter(p, &p->cuts, n, bound_ms);
}
