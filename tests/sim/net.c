/* SPDX-License-Identifier: MIT */
/* net.c - connections in memory.
 *
 * A connection has two pipes. What is sent goes into a pipe as a piece with a time of arrival, later than that of the
 * piece before it. The end of the stream is a piece, too. The server reads whatever arrives, whether or not the client
 * is still there; the client reads from `inbox` when it likes.
 *
 * Connections live until the run ends, so a late event never meets a freed one; their memory serves the next run.
 */
#include "tests/sim/net.h"

#include "core/io/sock.h"
#include "core/io/watch.h"
#include "scripts/scripts.h"
#include "tests/sim/server.h"
#include "tests/support/resp.h"
#include "tests/support/wait.h"

#include <errno.h>
#include <redlatch/error.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#define MOST_CONNS 32768
#define MOST_PIECES 256
#define NO_CUT SIZE_MAX
#define GREETING_OTHERWISE 2000 /* bytes that a client says before it is ready, at most, beside its scripts */
#define FOR_EVER_NS (1000000 * RDL__SEC)
#define SEND_NS 20000 /* what writing to a socket takes, at most */

struct piece {
    int64_t at;
    size_t len; /* 0: the end of the stream */
};

/* What a client has given to its socket at one moment, up to the byte `end` of all that it ever sent. */
struct given {
    int64_t at;
    size_t end;
};

struct pipe {
    struct conn *conn;
    struct event arrival; /* of the first piece */
    struct bytes bytes;
    struct piece pieces[MOST_PIECES];
    size_t first, count;
    int64_t last_at;
    int64_t hold_until;
    size_t cut_after; /* bytes, or NO_CUT */
    bool ended;       /* takes no more */
};

enum conn_state { CONNECTING, REFUSED, OPEN };

struct conn {
    struct process *process;
    unsigned server;
    unsigned serial;
    enum conn_state state;
    struct event connecting;
    struct pipe pipe[2];
    struct session *session; /* NULL: the server knows nothing of it, or no more */
    unsigned
        late_turns; /* what it carries arrives between two commands of its owner's: after so many; 0: by time alone */

    /* the client's end */
    struct bytes inbox;
    bool at_end; /* nothing follows the inbox */
    bool reset;  /* it broke: reading and writing say so */
    bool shut;
    bool closed;
    struct fibre *reader;
    void (*watch)(void *arg);
    void *watch_arg;
    struct given given[MOST_PIECES]; /* and not read by the server */
    size_t given_first, given_count;
    size_t taken, read; /* bytes: by the socket, by the server */
};

static struct {
    struct net_config config;
    struct conn *conns[MOST_CONNS]; /* the first `count` are this run's, the others kept for the next */
    size_t count;
    struct { /* processes that are cut off */
        const struct process *process;
        int64_t until;
    } partitions[64];
    size_t partition_count;
    struct conn *touched;
    size_t late_count; /* of connections that wait for their turn */
} net;

static struct conn *conn_of(int fd)
{
    if (fd < 0 || (size_t)fd >= net.count || net.conns[fd]->closed)
        die("sim: %d is no open descriptor", fd);
    return net.conns[fd];
}

/* ---- the client's end ------------------------------------------------------------------------------------------- */

static void news(struct conn *c)
{
    if (c->reader != NULL)
        fibre_wake(c->reader, draw_from(0, 20000));
    if (c->watch != NULL)
        c->watch(c->watch_arg);
}

static size_t under_way(const struct pipe *p)
{
    return p->bytes.len;
}

static bool readable(const struct conn *c)
{
    return c->state == OPEN && (c->inbox.len > 0 || c->at_end || c->reset || c->shut);
}

static bool writable(const struct conn *c)
{
    return c->state == REFUSED ||
           (c->state == OPEN && (c->reset || c->shut || under_way(&c->pipe[UP]) < net.config.room));
}

int net_ready(int fd)
{
    const struct conn *c = conn_of(fd);

    return (readable(c) ? RDL__READABLE : 0) | (writable(c) ? RDL__WRITABLE : 0);
}

void net_watch(int fd, void (*fn)(void *arg), void *arg)
{
    struct conn *c = conn_of(fd);

    c->watch = fn;
    c->watch_arg = arg;
}

/* ---- pipes ------------------------------------------------------------------------------------------------------ */

static int64_t delay(void)
{
    return net.config.delay_ns + (int64_t)draw((uint64_t)net.config.jitter_ns + 1);
}

static int64_t cut_off_until(const struct process *process)
{
    int64_t until = 0;

    for (size_t i = 0; i < net.partition_count; i++)
        if (net.partitions[i].process == process && net.partitions[i].until > until)
            until = net.partitions[i].until;
    return until;
}

static void set_arrival(struct pipe *p)
{
    if (p->count > 0)
        event_at(&p->arrival, p->pieces[p->first].at);
    else
        event_off(&p->arrival);
}

static void add_piece(struct pipe *p, size_t len)
{
    int64_t at = world_now() + delay() + p->conn->serial * net.config.farther_ns;

    if (p->count == MOST_PIECES)
        die("sim: more than %d pieces are under way", MOST_PIECES);
    if (at < p->hold_until)
        at = p->hold_until;
    if (at < cut_off_until(p->conn->process))
        at = cut_off_until(p->conn->process);
    if (at <= p->last_at)
        at = p->last_at + 1;
    p->last_at = at;
    p->pieces[(p->first + p->count) % MOST_PIECES] = (struct piece){at, len};
    if (p->count++ == 0)
        set_arrival(p);
}

static void end_stream(struct pipe *p)
{
    if (p->ended)
        return;
    p->ended = true;
    add_piece(p, 0);
}

/* What is under way arrives not before `until`. */
static void hold(struct pipe *p, int64_t until)
{
    if (until > p->hold_until)
        p->hold_until = until;
    for (size_t i = 0; i < p->count; i++) {
        struct piece *piece = &p->pieces[(p->first + i) % MOST_PIECES];

        if (piece->at < until + (int64_t)i)
            piece->at = until + (int64_t)i;
        p->last_at = piece->at;
    }
    set_arrival(p);
}

static void empty(struct pipe *p)
{
    p->bytes.len = 0;
    p->count = 0;
    set_arrival(p);
}

/* Put bytes in; false: the connection has just been cut, after the first of them. */
static bool put(struct pipe *p, const char *bytes, size_t len)
{
    bool cut = p->cut_after != NO_CUT && len >= p->cut_after;

    if (p->ended)
        return true;
    if (cut)
        len = p->cut_after;
    else if (p->cut_after != NO_CUT)
        p->cut_after -= len;
    if (len > 0) {
        bytes_add(&p->bytes, bytes, len);
        add_piece(p, len);
    }
    if (cut) {
        p->cut_after = NO_CUT;
        net_cut(p->conn);
    }
    return !cut;
}

/* The client wants to send `len` bytes behind those that the socket has taken: some of them, perhaps, once more. */
static void note_given(struct conn *c, size_t len)
{
    size_t last = (c->given_first + c->given_count + MOST_PIECES - 1) % MOST_PIECES, end = c->taken + len;

    if (end <= (c->given_count > 0 ? c->given[last].end : c->taken))
        return;
    if (c->given_count == MOST_PIECES)
        die("sim: more than %d sendings are under way", MOST_PIECES);
    c->given[(c->given_first + c->given_count++) % MOST_PIECES] = (struct given){world_now(), end};
}

static struct piece take_piece(struct pipe *p)
{
    struct piece piece = p->pieces[p->first];

    p->first = (p->first + 1) % MOST_PIECES;
    p->count--;
    set_arrival(p);
    return piece;
}

static void arrive_up(struct event *e)
{
    struct pipe *p = rdl__container(e, struct pipe, arrival);
    struct conn *c = p->conn;
    struct piece piece = take_piece(p);
    bool was_full = under_way(p) >= net.config.room;

    if (piece.len == 0) {
        if (c->session != NULL)
            server_forget(c->session);
        c->session = NULL;
        return;
    }
    if (c->session != NULL)
        server_receive(c->session, p->bytes.at, piece.len);
    bytes_drop(&p->bytes, piece.len < p->bytes.len ? piece.len : p->bytes.len);
    if (was_full && !c->closed)
        news(c);
}

static void arrive_down(struct event *e)
{
    struct pipe *p = rdl__container(e, struct pipe, arrival);
    struct conn *c = p->conn;
    struct piece piece = take_piece(p);

    if (piece.len == 0)
        c->at_end = true;
    else if (!c->closed)
        bytes_add(&c->inbox, p->bytes.at, piece.len);
    bytes_drop(&p->bytes, piece.len);
    if (!c->closed)
        news(c);
}

/* ---- life ------------------------------------------------------------------------------------------------------- */

void net_begin(const struct net_config *config)
{
    net.config = *config;
    net.count = 0;
    net.partition_count = 0;
    net.late_count = 0;
    net.touched = NULL;
}

void net_end(void)
{
    net.count = 0;
}

int64_t net_round_trip(void)
{
    return 2 * (net.config.delay_ns + net.config.jitter_ns);
}

/* What a client says before it is ready, in bytes, at most. */
static size_t greeting_size(void)
{
    size_t size = GREETING_OTHERWISE;

    for (size_t i = 1; i < RDL__SCRIPT_GREETING_END; i++)
        size += rdl__scripts[i].body_len;
    return size;
}

int64_t net_connect_time(void)
{
    return 2 * net_round_trip() + (int64_t)(greeting_size() / net.config.room) * net_round_trip() / 2;
}

static void on_connecting(struct event *e)
{
    struct conn *c = rdl__container(e, struct conn, connecting);

    unsigned before;

    if (c->closed)
        return;
    before = server_select(c->server);
    c->session = server_accept(c);
    (void)server_select(before);
    c->state = c->session == NULL ? REFUSED : OPEN;
    news(c);
}

static void pipe_begin(struct pipe *p, struct conn *c, void (*arrive)(struct event *), struct process *process)
{
    struct bytes kept = p->bytes;

    memset(p, 0, offsetof(struct pipe, pieces));
    p->conn = c;
    p->bytes = (struct bytes){kept.at, 0, kept.cap};
    p->first = p->count = 0;
    p->last_at = p->hold_until = 0;
    p->cut_after = NO_CUT;
    p->ended = false;
    event_init(&p->arrival, arrive, process);
}

static struct process *process_of_server(unsigned n)
{
    unsigned before = server_select(n);
    struct process *process = server_process();

    (void)server_select(before);
    return process;
}

static struct conn *conn_new(struct process *process, unsigned server)
{
    struct conn *c;

    if (net.count == MOST_CONNS)
        die("sim: more than %d connections", MOST_CONNS);
    if ((c = net.conns[net.count]) == NULL)
        c = net.conns[net.count] = must_alloc(sizeof *c);
    c->process = process;
    c->server = server;
    c->serial = (unsigned)net.count++;
    c->state = CONNECTING;
    pipe_begin(&c->pipe[UP], c, arrive_up, process_of_server(server));
    pipe_begin(&c->pipe[DOWN], c, arrive_down, NULL);
    c->session = NULL;
    c->late_turns = 0;
    c->inbox.len = 0;
    c->at_end = c->reset = c->shut = c->closed = false;
    c->given_first = c->given_count = c->taken = c->read = 0;
    c->reader = NULL;
    c->watch = NULL;
    event_init(&c->connecting, on_connecting, NULL);
    return c;
}

/* The client's end is gone. What it has sent goes on, perhaps very slowly. */
static void leave(struct conn *c)
{
    struct pipe *up = &c->pipe[UP];

    if (up->count > 0 && !up->ended && chance(net.config.late_of_16, 16)) {
        hold(up, world_now() + draw_from(0, net.config.late_ns));
        say("conn %u ends; what it carries comes late, at %.3f", c->serial, (double)up->last_at / (double)RDL__MS);
        c->late_turns = net.config.late_turns == 0 ? 0 : (unsigned)draw(net.config.late_turns);
        net.late_count += c->late_turns > 0;
    }
    end_stream(up);
}

/* The server gets all that it carries now, and its end. */
static void arrive_at_once(struct conn *c)
{
    if (c->pipe[UP].count > 0)
        say("conn %u: what it carries comes now", c->serial);
    while (c->pipe[UP].count > 0)
        arrive_up(&c->pipe[UP].arrival);
}

void net_turn(const struct conn *conn)
{
    if (conn->pipe[UP].ended) /* it is late itself, or ends right now */
        return;
    for (size_t i = 0; net.late_count > 0 && i < net.count; i++) {
        struct conn *c = net.conns[i];

        if (c->process != conn->process || c->late_turns == 0 || --c->late_turns > 0)
            continue;
        net.late_count--;
        arrive_at_once(c);
    }
}

/* ---- sock.h ----------------------------------------------------------------------------------------------------- */

/* "unix:/simulated" is number 0; of others the last digit says it. */
static unsigned server_at(const struct rdl__addr *addr)
{
    const char *path = ((const struct sockaddr_un *)(const void *)&addr->sa)->sun_path;
    char last = path[strlen(path) - 1];

    return last >= '0' && last <= '9' ? (unsigned)(last - '0') : 0;
}

int rdl__sock_open(struct rdl__sock *s, const struct rdl__addr *addr)
{
    struct conn *c = conn_new(process_here(), server_at(addr));
    int64_t at = world_now() + 2 * delay();

    if (at < cut_off_until(c->process))
        at = cut_off_until(c->process);
    s->fd = (int)c->serial;
    say("conn %u is being made", c->serial);
    event_at(&c->connecting, at);
    return RDL_OK;
}

int rdl__sock_error(struct rdl__sock *s)
{
    return conn_of(s->fd)->state == REFUSED ? ECONNREFUSED : 0;
}

/* A thread that writes is in the kernel for a while, and others run: no lock is held then. */
static void be_away(void)
{
    if (world_threaded())
        point("sent");
    else if (fibre_here() != NULL && chance(1, 8))
        fibre_sleep(draw_from(0, SEND_NS));
}

ssize_t rdl__sock_send(struct rdl__sock *s, const void *bytes, size_t len)
{
    struct conn *c;
    size_t room;

    point("send");
    c = conn_of(s->fd);
    if (c->shut || c->reset)
        return -EPIPE;
    note_given(c, len);
    room = under_way(&c->pipe[UP]) < net.config.room ? net.config.room - under_way(&c->pipe[UP]) : 0;
    if (len > room)
        len = room;
    net.touched = c;
    if (len > 0)
        (void)put(&c->pipe[UP], bytes, len);
    c->taken += len;
    be_away();
    return (ssize_t)len;
}

/* Is one of them ready? Each is told. */
static bool any_ready(struct rdl__sock_wait *waits, unsigned n)
{
    bool any = false;

    for (unsigned i = 0; i < n; i++) {
        struct conn *c = conn_of(waits[i].sock->fd);

        waits[i].ready = readable(c) || (waits[i].writable && writable(c));
        any |= waits[i].ready;
    }
    return any;
}

static void expect(const struct rdl__sock_wait *waits, unsigned n, struct fibre *reader)
{
    for (unsigned i = 0; i < n; i++)
        conn_of(waits[i].sock->fd)->reader = reader;
}

/* Give way until something may be read or written, or time is up. */
void rdl__sock_wait_any(struct rdl__sock_wait *waits, unsigned n, int64_t now, int64_t until)
{
    if (until > now + RDL__SOCK_SLICE_MS * RDL__MS)
        until = now + RDL__SOCK_SLICE_MS * RDL__MS;
    if (loop_running() != NULL)
        violated("the loop never blocks", "it waits for a socket");
    while (!any_ready(waits, n) && rdl__now() < until) {
        expect(waits, n, fibre_here());
        fibre_wait(process_when(conn_of(waits[0].sock->fd)->process, until));
        expect(waits, n, NULL);
    }
}

static void block(const struct rdl__sock *s, bool also_writable, int64_t now, int64_t until)
{
    struct rdl__sock_wait wait = {.sock = s, .writable = also_writable};

    rdl__sock_wait_any(&wait, 1, now, until);
}

ssize_t rdl__sock_recv(struct rdl__sock *s, void *to, size_t cap, int64_t now, int64_t until)
{
    struct conn *c;
    size_t n;

    point("recv");
    if (until > now)
        block(s, false, now, until);
    c = conn_of(s->fd);
    if (c->shut)
        return -EPIPE;
    if (c->inbox.len == 0)
        return c->reset ? -ECONNRESET : c->at_end ? -EPIPE : 0;
    n = c->inbox.len < cap ? c->inbox.len : cap;
    memcpy(to, c->inbox.at, n);
    bytes_drop(&c->inbox, n);
    return (ssize_t)n;
}

/* Time does not pass while a simulated thread runs: there is nothing to look for. */
ssize_t rdl__sock_poll(struct rdl__sock *s, void *to, size_t cap, int64_t *now, int64_t for_ns, int64_t *ret_idle)
{
    (void)for_ns;
    *ret_idle = 0;
    *now = rdl__now();
    return rdl__sock_recv(s, to, cap, *now, *now);
}

void rdl__sock_wait(struct rdl__sock *s, bool writable_too, int64_t now, int64_t until)
{
    block(s, writable_too, now, until);
}

void rdl__sock_shutdown(struct rdl__sock *s)
{
    struct conn *c;

    if (s->fd < 0)
        return;
    c = conn_of(s->fd);
    if (!c->shut)
        leave(c);
    c->shut = true;
    news(c);
}

void rdl__sock_close(struct rdl__sock *s)
{
    struct conn *c;

    if (s->fd < 0)
        return;
    c = conn_of(s->fd);
    if (c->watch != NULL || c->reader != NULL)
        violated("descriptors are closed when nobody uses them", "conn %u is %s", c->serial,
                 c->watch != NULL ? "watched" : "being read");
    event_off(&c->connecting);
    if (c->state == OPEN)
        leave(c);
    c->closed = true;
    s->fd = -1;
}

/* ---- the server's end ------------------------------------------------------------------------------------------- */

void net_answer(struct conn *c, const char *bytes, size_t len)
{
    (void)put(&c->pipe[DOWN], bytes, len);
}

int64_t net_given_at(struct conn *c, size_t len)
{
    c->read += len;
    while (c->given[c->given_first].end < c->read) {
        c->given_first = (c->given_first + 1) % MOST_PIECES;
        c->given_count--;
    }
    return c->given[c->given_first].at;
}

void net_hang_up(struct conn *c)
{
    c->session = NULL;
    end_stream(&c->pipe[DOWN]);
}

/* ---- faults ----------------------------------------------------------------------------------------------------- */

static bool in_use(const struct conn *c)
{
    return c->state == OPEN && !c->closed && !c->shut && !c->reset;
}

struct conn *net_any(const struct process *process)
{
    struct conn *found = NULL;
    unsigned seen = 0;

    for (size_t i = 0; i < net.count; i++)
        if ((process == NULL || net.conns[i]->process == process) && in_use(net.conns[i]) && draw(++seen) == 0)
            found = net.conns[i];
    return found;
}

struct conn *net_carrying(void)
{
    struct conn *found = NULL;
    unsigned seen = 0;

    for (size_t i = 0; i < net.count; i++)
        if (in_use(net.conns[i]) && net.conns[i]->pipe[UP].count > 0 && draw(++seen) == 0)
            found = net.conns[i];
    return found;
}

struct conn *net_nth(const struct process *process, size_t n)
{
    for (size_t i = 0; i < net.count; i++)
        if (net.conns[i]->process == process && in_use(net.conns[i]) && n-- == 0)
            return net.conns[i];
    return NULL;
}

struct conn *net_touched(void)
{
    return net.touched != NULL && in_use(net.touched) ? net.touched : NULL;
}

struct conn *net_last(const struct process *process)
{
    for (size_t i = net.count; i > 0; i--)
        if (net.conns[i - 1]->process == process && in_use(net.conns[i - 1]))
            return net.conns[i - 1];
    return NULL;
}

void net_cut(struct conn *c)
{
    struct pipe *up = &c->pipe[UP];
    struct pipe *down = &c->pipe[DOWN];

    say("conn %u of %s is cut", c->serial, c->process->name);
    if (net.config.on_cut != NULL)
        net.config.on_cut(c->process);
    if (!up->ended && chance(net.config.lost_of_4, 4))
        empty(up);
    if (!down->ended && chance(net.config.lost_of_4, 4))
        empty(down);
    leave(c);
    end_stream(down);
}

void net_cut_after(struct conn *c, enum direction direction, size_t bytes)
{
    say("conn %u of %s will be cut after %zu bytes %s the server", c->serial, c->process->name, bytes,
        direction == UP ? "to" : "from");
    c->pipe[direction].cut_after = bytes;
}

void net_hold(struct conn *c, enum direction direction, int64_t until)
{
    say("conn %u of %s: nothing arrives %s the server before %.3f", c->serial, c->process->name,
        direction == UP ? "at" : "from", (double)until / (double)RDL__MS);
    hold(&c->pipe[direction], until);
}

static void keep_off(const struct process *process, int64_t until)
{
    if (net.partition_count == sizeof net.partitions / sizeof net.partitions[0])
        die("sim: too many partitions");
    net.partitions[net.partition_count].process = process;
    net.partitions[net.partition_count++].until = until;
}

void net_partition(const struct process *process, int64_t until)
{
    say("%s is cut off until %.3f", process->name, (double)until / (double)RDL__MS);
    keep_off(process, until);
    for (size_t i = 0; i < net.count; i++)
        if (net.conns[i]->process == process && net.conns[i]->state == OPEN)
            for (int d = UP; d <= DOWN; d++)
                hold(&net.conns[i]->pipe[d], until);
}

void net_lose_server(unsigned server)
{
    for (size_t i = 0; i < net.count; i++) {
        struct conn *c = net.conns[i];

        if (c->server != server || c->state != OPEN)
            continue;
        empty(&c->pipe[UP]);
        c->pipe[UP].ended = true;
        c->session = NULL;
        if (!c->pipe[DOWN].ended) { /* else its end is on the way */
            empty(&c->pipe[DOWN]);
            end_stream(&c->pipe[DOWN]);
        }
    }
}

int64_t net_carried_until(void)
{
    int64_t until = 0;

    for (size_t i = 0; i < net.count; i++) {
        const struct pipe *up = &net.conns[i]->pipe[UP];

        if (up->count > 0 && up->last_at > until)
            until = up->last_at;
    }
    return until;
}

void net_bury(const struct process *process)
{
    for (size_t i = 0; i < net.count; i++) {
        struct conn *c = net.conns[i];

        if (c->process != process || c->closed)
            continue;
        c->reset = true;
        leave(c);
        news(c);
    }
    keep_off(process, world_now() + FOR_EVER_NS); /* what is under way arrives */
}

const struct process *net_owner(const struct conn *c)
{
    return c->process;
}

bool net_abandoned(const struct conn *c)
{
    return c->closed;
}

unsigned net_serial(const struct conn *c)
{
    return c->serial;
}

size_t net_open(const struct process *process)
{
    size_t open = 0;

    for (size_t i = 0; i < net.count; i++)
        open += net.conns[i]->process == process && !net.conns[i]->closed;
    return open;
}
