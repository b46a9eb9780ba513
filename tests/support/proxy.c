/* proxy.c - see proxy.h.
 *
 * A link is a client's connection and its own connection to the server. Each has two lanes, one a way. A lane reads
 * bytes into `in`, cuts them into frames, and puts each frame as a piece into its queue, where a piece waits until it
 * is due, not held, and the way is not frozen. A link also keeps the requests that the server has still to answer,
 * oldest first: that is how a reply is matched to the rule that its request triggered.
 *
 * Everything is under mu, except the thread's sleep in ppoll and the few fields that never change. The functions of the
 * interface change the state under mu and ring the thread's bell.
 */
#include "tests/support/proxy.h"
#include "tests/support/resp.h"
#include "tests/support/wait.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define MAX_RULES 64
#define NO_RULE (-1)
#define UNLIMITED SIZE_MAX
#define MAX_BARRED 8

union address {
    struct sockaddr any;
    struct sockaddr_in tcp;
    struct sockaddr_un local;
};

/* A frame, or what is left of one, on its way. */
struct piece {
    struct piece *next;
    char *at;
    size_t len;
    size_t sent;
    int64_t due_us;
    int held_by; /* rule, or NO_RULE */
    bool cut_after;
};

struct lane {
    int way; /* PROXY_TO_SERVER or PROXY_TO_CLIENT */
    int from;
    int to;
    struct bytes in;
    struct piece *first;
    struct piece **last;
    bool ended; /* no more will come */
    bool lost;  /* something was swallowed: nothing passes any more */
};

/* A request that waits for its reply. */
struct awaited {
    struct awaited *next;
    unsigned replies;   /* frames that answer it: a SUBSCRIBE of three channels has three */
    uint64_t rules;     /* those that the request has triggered, a bit each */
    const char *answer; /* the proxy's own answer, NULL: the server's */
};

struct link {
    struct link *next;
    in_addr_t source; /* of the client, with TCP */
    int client;       /* -1: gone while the server's side stays open */
    int server;       /* -1: the other way round */
    struct lane up;
    struct lane down;
    struct awaited *first;
    struct awaited **last;
    bool subscriber;
    bool orphaned;  /* the server's side is to be closed */
    bool abandoned; /* the client's side is to be closed */
    bool broken;    /* both sides are to be closed */
};

struct rule {
    struct proxy_rule is;
    unsigned matched;
    unsigned acted;
    bool gone; /* let go */
};

/* Faults of the whole line, one way. */
struct way {
    int64_t delay_us;
    bool frozen;
    bool swallow;
    size_t cut_after; /* bytes left, or UNLIMITED */
};

struct proxy {
    /* never changes */
    bool blind;
    char *uri;
    union address here;
    socklen_t here_len;
    union address there;
    socklen_t there_len;
    int port_fd; /* keeps the port while nobody listens there; TCP only */
    int bell;
    pthread_t thread;
    pthread_mutex_t mu;
    pthread_cond_t happened;
    /* under mu */
    int listener; /* -1 while refusing */
    bool end;
    struct link *links;
    struct way to_server;
    struct way to_client;
    in_addr_t barred[MAX_BARRED]; /* 0: a place that is free */
    struct rule rules[MAX_RULES];
    int rule_count;
    unsigned accepted;
    unsigned cuts;
    uint64_t requests;
    uint64_t replies;
};

/* ---- queues ----------------------------------------------------------------------------------------------------- */

static struct way *way_of(struct proxy *p, const struct lane *lane)
{
    return lane->way == PROXY_TO_SERVER ? &p->to_server : &p->to_client;
}

/* Put `len` bytes into the lane's queue; a piece may be empty when it only carries a cut. */
static void queue_piece(struct proxy *p, struct lane *lane, const char *at, size_t len, int held_by, bool cut_after)
{
    struct way *way = way_of(p, lane);
    struct piece *piece;

    if (lane->lost || way->swallow) {
        lane->lost = true;
        return;
    }
    if (way->cut_after != UNLIMITED && len >= way->cut_after) {
        len = way->cut_after;
        cut_after = true;
        way->cut_after = UNLIMITED;
    } else if (way->cut_after != UNLIMITED) {
        way->cut_after -= len;
    }
    piece = must_alloc(sizeof *piece);
    piece->at = must_alloc(len + 1);
    memcpy(piece->at, at, len);
    piece->len = len;
    piece->due_us = now_us() + way->delay_us;
    piece->held_by = held_by;
    piece->cut_after = cut_after;
    *lane->last = piece;
    lane->last = &piece->next;
}

static void drop_first_piece(struct lane *lane)
{
    struct piece *piece = lane->first;

    if ((lane->first = piece->next) == NULL)
        lane->last = &lane->first;
    free(piece->at);
    free(piece);
}

static void lane_init(struct lane *lane, int way, int from, int to)
{
    *lane = (struct lane){.way = way, .from = from, .to = to};
    lane->last = &lane->first;
}

static void lane_empty(struct lane *lane)
{
    while (lane->first != NULL)
        drop_first_piece(lane);
    bytes_drop(&lane->in, lane->in.len);
}

static void lane_done(struct lane *lane)
{
    lane_empty(lane);
    bytes_done(&lane->in);
}

static void await_reply(struct link *link, unsigned replies, uint64_t rules, const char *answer)
{
    struct awaited *a = must_alloc(sizeof *a);

    a->replies = replies;
    a->rules = rules;
    a->answer = answer;
    *link->last = a;
    link->last = &a->next;
}

static void drop_first_awaited(struct link *link)
{
    struct awaited *a = link->first;

    if ((link->first = a->next) == NULL)
        link->last = &link->first;
    free(a);
}

/* ---- rules ------------------------------------------------------------------------------------------------------ */

static bool word_is(const char *frame, size_t len, const char *word)
{
    size_t word_len = 0;
    const char *at = resp_word(frame, len, 0, &word_len);

    return at != NULL && word_len == strlen(word) && strncasecmp(at, word, word_len) == 0;
}

static bool matches(const struct proxy_rule *rule, const char *frame, size_t len)
{
    if (rule->command != NULL && !word_is(frame, len, rule->command))
        return false;
    return rule->contains == NULL || memmem(frame, len, rule->contains, rule->contains_len) != NULL;
}

static void has_acted(struct proxy *p, int rule)
{
    p->rules[rule].acted++;
    pthread_cond_broadcast(&p->happened);
}

/* Count the frame with every rule that it matches; returns those whose turn it is, a bit each. */
static uint64_t trigger(struct proxy *p, bool message, const char *frame, size_t len)
{
    uint64_t triggered = 0;

    for (int i = 0; i < p->rule_count; i++) {
        struct rule *rule = &p->rules[i];

        if (rule->gone || (rule->is.part == PROXY_MESSAGE) != message || !matches(&rule->is, frame, len))
            continue;
        rule->matched++;
        if (rule->matched == rule->is.nth || (rule->is.every && rule->matched > rule->is.nth))
            triggered |= UINT64_C(1) << i;
    }
    return triggered;
}

/* Of the triggered rules for this part: count those that only watch, return the first that acts, or NO_RULE. */
static int acting_rule(struct proxy *p, uint64_t triggered, enum proxy_part part)
{
    int acting = NO_RULE;

    for (int i = 0; i < p->rule_count; i++) {
        const struct rule *rule = &p->rules[i];

        if ((triggered >> i & 1) == 0 || rule->gone || rule->is.part != part)
            continue;
        if (rule->is.action == PROXY_WATCH)
            has_acted(p, i);
        else if (acting == NO_RULE)
            acting = i;
    }
    return acting;
}

/* Send a frame on its way, under a rule or NO_RULE. */
static void pass(struct proxy *p, struct lane *lane, int rule, const char *frame, size_t len)
{
    const struct proxy_rule *is;

    if (rule == NO_RULE) {
        queue_piece(p, lane, frame, len, NO_RULE, false);
        return;
    }
    is = &p->rules[rule].is;
    if (is->action == PROXY_HOLD)
        queue_piece(p, lane, frame, len, rule, false);
    else if (is->action == PROXY_CUT)
        queue_piece(p, lane, frame, is->at < len ? is->at : len, NO_RULE, true);
    else
        queue_piece(p, lane, is->answer, strlen(is->answer), NO_RULE, false);
    has_acted(p, rule);
}

/* Answers of our own that are next in line. */
static void queue_own_answers(struct proxy *p, struct link *link)
{
    while (link->first != NULL && link->first->answer != NULL) {
        queue_piece(p, &link->down, link->first->answer, strlen(link->first->answer), NO_RULE, false);
        drop_first_awaited(link);
    }
}

/* ---- frames ----------------------------------------------------------------------------------------------------- */

static bool ends_with_subscribe(const char *frame, size_t len)
{
    static const char tail[] = "subscribe";
    size_t word_len = 0;
    const char *word = resp_word(frame, len, 0, &word_len);

    return word != NULL && word_len >= sizeof tail - 1 &&
           strncasecmp(word + word_len - (sizeof tail - 1), tail, sizeof tail - 1) == 0;
}

/* How many frames will answer this request? */
static unsigned replies_to(const char *frame, size_t len)
{
    unsigned words = 1;
    size_t ignored;

    if (!ends_with_subscribe(frame, len))
        return 1;
    while (resp_word(frame, len, words, &ignored) != NULL)
        words++;
    return words > 1 ? words - 1 : 1;
}

static void take_request(struct proxy *p, struct link *link, const char *frame, size_t len)
{
    uint64_t triggered = trigger(p, false, frame, len);
    int rule = acting_rule(p, triggered, PROXY_REQUEST);

    p->requests++;
    link->subscriber = link->subscriber || ends_with_subscribe(frame, len);
    if (rule != NO_RULE && p->rules[rule].is.action == PROXY_ANSWER) {
        await_reply(link, 1, 0, p->rules[rule].is.answer);
        has_acted(p, rule);
        queue_own_answers(p, link);
        return;
    }
    await_reply(link, replies_to(frame, len), triggered, NULL);
    pass(p, &link->up, rule, frame, len);
}

static bool is_message(const char *frame, size_t len)
{
    if (frame[0] == '>')
        return !ends_with_subscribe(frame, len);
    return frame[0] == '*' &&
           (word_is(frame, len, "message") || word_is(frame, len, "pmessage") || word_is(frame, len, "smessage"));
}

static void take_reply(struct proxy *p, struct link *link, const char *frame, size_t len)
{
    if (is_message(frame, len)) {
        pass(p, &link->down, acting_rule(p, trigger(p, true, frame, len), PROXY_MESSAGE), frame, len);
        return;
    }
    p->replies++;
    pass(p, &link->down, link->first != NULL ? acting_rule(p, link->first->rules, PROXY_REPLY) : NO_RULE, frame, len);
    if (link->first != NULL && --link->first->replies == 0)
        drop_first_awaited(link);
    queue_own_answers(p, link);
}

static void take_frames(struct proxy *p, struct link *link, struct lane *lane)
{
    size_t used = 0;

    if (p->blind) {
        queue_piece(p, lane, lane->in.at, lane->in.len, NO_RULE, false);
        bytes_drop(&lane->in, lane->in.len);
        return;
    }
    for (;;) {
        ssize_t frame = resp_frame(lane->in.at + used, lane->in.len - used);

        if (frame < 0)
            die("proxy: not RESP: %.40s", lane->in.at + used);
        if (frame == 0)
            break;
        if (lane == &link->up)
            take_request(p, link, lane->in.at + used, (size_t)frame);
        else
            take_reply(p, link, lane->in.at + used, (size_t)frame);
        used += (size_t)frame;
    }
    bytes_drop(&lane->in, used);
}

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
