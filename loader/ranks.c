/* SPDX-License-Identifier: Apache-2.0
 *
 * tsr_ranks_run: one process per rank. The caller's process starts them and waits; it computes
 * nothing. Ranks notice the death of another rank by the transport, end by themselves and report
 * its position; these reports are in a page that all processes share.
 */
#include "loader/assign.h"
#include "runtime/base/clock.h"
#include "runtime/base/options.h"
#include "runtime/base/plural.h"
#include "runtime/transport/mpi/job.h"
#include "runtime/transport/shared.h"
#include "runtime/transport/tcp/tcp.h"
#include "tessera/tessera.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    TEXT_MAX = 1024,
    SPIN_NS = 50 * 1000,
    JOIN_SECONDS = 120,
    GRACE_MS = 10 * 1000, /* time for a rank to finish its last save */
    END_GRACE_MS = 60,    /* the same after the loss of a rank: nothing can be saved then */
};

#define FIRST_DEADLINE_NS UINT64_C(120000000000) /* until steps have been timed */
#define SAVE_DEADLINE_NS UINT64_C(600000000000)  /* a disk may be slow */

typedef struct rank_report {
    uint32_t code; /* tsr_code; written last */
    char text[TEXT_MAX];
} rank_report;

typedef struct child {
    pid_t pid; /* 0: ended */
    int pidfd;
    int signal, status; /* the signal that ended it; or 0 and an exit status */
    bool was_killed;    /* killed by the group */
    uint32_t order;     /* position of its end among all */
} child;

typedef struct group {
    tsr_ranks_options options;
    tsr_rank_body body;
    void *user;
    int fd, secondary_fd; /* shared memory of the transport, and of its side channel */
    rank_report *reports;
    child *children;
    uint32_t running, ended;
    uint64_t failed_at_ms; /* time at which the first one failed; 0: no rank has failed */
    bool stopping, killed;
    pid_t parent;
} group;

static uint64_t now_ms(void) { return tsr_clock_ns() / 1000000u; }

uint32_t tsr_rank_get_number(const tsr_transport *transport) { return transport->rank; }

/* ---- one rank ---- */

/* The processors of the process before it became a rank; empty: it was not started as one. */
static cpu_set_t inherited;

cpu_set_t tsr_ranks_get_processors(void) {
    cpu_set_t all = inherited;
    if (CPU_COUNT(&all) == 0) (void)sched_getaffinity(0, sizeof all, &all);
    return all;
}

/* Divides the processors of the process evenly among the ranks, if there is at least one for each.
 */
static void bind_processors(uint32_t rank, uint32_t rank_count) {
    if (sched_getaffinity(0, sizeof inherited, &inherited) != 0) return;
    const cpu_set_t own = tsr_assign_take_part(&inherited, rank, rank_count);
    (void)sched_setaffinity(0, sizeof own, &own);
}

/* Runs the body, reports a failure to the other ranks, and leaves in any case. */
static tsr_result work_and_leave(tsr_ctx *ctx, tsr_transport *transport, tsr_rank_body body,
                                 void *user) {
    tsr_result result = body(ctx, transport, user);
    if (result.code) tsr_transport_fail(transport, (tsr_code)result.code, ctx->error.text);
    tsr_transport_close(transport);
    return result;
}

static tsr_result open_job(tsr_ctx *ctx, const tsr_job_options *o, tsr_transport **out_transport) {
    const tsr_mpi_options mpi = {.size_bytes = sizeof mpi,
                                 .module = o->mpi_module,
                                 .deadline_ns = FIRST_DEADLINE_NS,
                                 .secondary_deadline_ns = SAVE_DEADLINE_NS};
    const uint64_t seconds = o->join_seconds ? o->join_seconds : JOIN_SECONDS;
    const tsr_tcp_options tcp = {.size_bytes = sizeof tcp,
                                 .rank = o->rank,
                                 .rank_count = o->rank_count,
                                 .address = o->address,
                                 .port = o->port,
                                 .key = o->key,
                                 .key_bytes = o->key_bytes,
                                 .insecure = o->insecure,
                                 .join_ns = seconds * 1000000000u,
                                 .deadline_ns = FIRST_DEADLINE_NS,
                                 .secondary_deadline_ns = SAVE_DEADLINE_NS};
    switch (o->transport) {
    case TSR_JOB_TCP:
        return tsr_tcp_join(ctx, &tcp, out_transport);
    case TSR_JOB_MPI:
        return tsr_mpi_open(ctx, &mpi, out_transport);
    }
    FAIL(ctx, TSR_USAGE, "transport %d of a job; expected %d (TCP) or %d (MPI)", (int)o->transport,
         TSR_JOB_TCP, TSR_JOB_MPI);
}

tsr_result tsr_ranks_join_job(tsr_ctx *ctx, const tsr_job_options *options, tsr_rank_body body,
                              void *user) {
    tsr_job_options o;
    tsr_transport *transport = NULL;
    TRY(ctx, tsr_options_copy(ctx, "tsr_job_options", options, &o, sizeof o));
    if (o.local_rank_count && o.local_rank >= o.local_rank_count)
        FAIL(ctx, TSR_USAGE, "local rank %u of %u; ranks count from 0", o.local_rank,
             o.local_rank_count);
    bind_processors(o.local_rank, o.local_rank_count);
    TRY(ctx, open_job(ctx, &o, &transport));
    return work_and_leave(ctx, transport, body, user);
}

static tsr_result join(tsr_ctx *ctx, int fd, uint32_t rank, uint64_t deadline_ns,
                       tsr_transport **out_transport) {
    const tsr_shared_join_options options = {.size_bytes = sizeof options,
                                             .fd = fd,
                                             .rank = rank,
                                             .deadline_ns = deadline_ns,
                                             .spin_ns = SPIN_NS};
    return tsr_shared_join(ctx, &options, out_transport);
}

static tsr_result be_rank(tsr_ctx *ctx, const group *g, uint32_t rank) {
    tsr_transport *transport = NULL;
    TRY(ctx, join(ctx, g->fd, rank, FIRST_DEADLINE_NS, &transport));
    tsr_result result = join(ctx, g->secondary_fd, rank, SAVE_DEADLINE_NS, &transport->secondary);
    if (!result.code) {
        transport->secondary->is_secondary = true;
        return work_and_leave(ctx, transport, g->body, g->user);
    }
    tsr_transport_close(transport);
    return result;
}

static void run_child(const tsr_ctx *from, const group *g, uint32_t rank) {
    tsr_ctx ctx = tsr_ctx_fork(from);
    rank_report *report = &g->reports[rank];
    (void)setpgid(0, 0); /* so that the caller forwards a terminal's signals, once */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_PTRACER, g->parent); /* and its descendants: ranks read the memory of others */
    if (getppid() != g->parent) _exit(TSR_RANK);
    bind_processors(rank, g->options.rank_count);
    tsr_result result = be_rank(&ctx, g, rank);
    if (result.code) snprintf(report->text, sizeof report->text, "%s", ctx.error.text);
    report->code = (uint32_t)result.code;
    fflush(NULL);
    _exit(result.code);
}

/* ---- all ranks ---- */

static tsr_result start_one(tsr_ctx *ctx, group *g, uint32_t rank) {
    child *c = &g->children[rank];
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0)
        FAIL_ERRNO(ctx, TSR_MEMORY, errno, "cannot start rank %u of %u", rank,
                   g->options.rank_count);
    if (pid == 0) run_child(ctx, g, rank);
    *c = (child){.pid = pid, .pidfd = (int)syscall(SYS_pidfd_open, pid, 0)};
    if (c->pidfd < 0) {
        int error = errno;
        kill(pid, SIGKILL); /* nothing would report its end */
        waitpid(pid, NULL, 0);
        c->pid = 0;
        FAIL_ERRNO(ctx, TSR_MACHINE, error, "cannot watch rank %u", rank);
    }
    g->running++;
    return TSR_SUCCESS;
}

static void signal_all(const group *g, int number) {
    for (uint32_t r = 0; r < g->options.rank_count; r++)
        if (g->children[r].pid) kill(g->children[r].pid, number);
}

static void note_end(group *g, uint32_t rank) {
    child *c = &g->children[rank];
    siginfo_t info = {0};
    if (waitid(P_PID, (id_t)c->pid, &info, WEXITED) != 0) return;
    if (info.si_code == CLD_EXITED)
        c->status = info.si_status;
    else
        c->signal = info.si_status;
    close(c->pidfd);
    c->was_killed = g->killed;
    c->pid = 0;
    c->order = g->ended++;
    g->running--;
    if ((c->signal || c->status) && !g->failed_at_ms) g->failed_at_ms = now_ms();
}

static void pass_on_stop(group *g) {
    if (!g->options.stop || !*g->options.stop || g->stopping) return;
    g->stopping = true;
    signal_all(g, SIGTERM);
}

/* Returns the grace period: if a rank is lost, no last save is possible. */
static uint64_t grace_of(const group *g) {
    for (uint32_t r = 0; r < g->options.rank_count; r++)
        if (g->children[r].signal || g->reports[r].code == TSR_RANK) return END_GRACE_MS;
    return GRACE_MS;
}

/* Waits until all ranks have ended. After a failure the others end by themselves, or are killed. */
static void wait_for_all(group *g) {
    struct pollfd polls[TSR_TRANSPORT_RANKS_MAX];
    uint32_t ranks[TSR_TRANSPORT_RANKS_MAX];
    while (g->running > 0) {
        nfds_t count = 0;
        for (uint32_t r = 0; r < g->options.rank_count; r++) {
            if (!g->children[r].pid) continue;
            polls[count] = (struct pollfd){.fd = g->children[r].pidfd, .events = POLLIN};
            ranks[count++] = r;
        }
        int ready = poll(polls, count, g->failed_at_ms && !g->killed ? 10 : 100);
        pass_on_stop(g);
        for (nfds_t i = 0; ready > 0 && i < count; i++)
            if (polls[i].revents) note_end(g, ranks[i]);
        if (g->failed_at_ms && !g->killed && now_ms() - g->failed_at_ms > grace_of(g)) {
            g->killed = true;
            signal_all(g, SIGKILL);
        }
    }
}

static const char *describe_end(const child *c, char *out, size_t size) {
    if (c->signal)
        snprintf(out, size, "was ended by signal %d (%s)", c->signal, strsignal(c->signal));
    else
        snprintf(out, size, "ended with exit code %d", c->status);
    return out;
}

/* Finds the rank whose end explains the ends of the others: the first rank that another process
 * killed, otherwise the first rank with an error of its own, otherwise the first rank. */
static uint32_t find_cause(const group *g) {
    uint32_t best = UINT32_MAX, best_weight = 0;
    for (uint32_t r = 0; r < g->options.rank_count; r++) {
        const child *c = &g->children[r];
        uint32_t code = g->reports[r].code;
        if (!c->signal && !c->status) continue;
        bool from_outside = c->signal && !c->was_killed;
        uint32_t weight = from_outside ? 3 : code && code != TSR_RANK ? 2 : c->signal ? 0 : 1;
        if (best == UINT32_MAX || weight > best_weight ||
            (weight == best_weight && c->order < g->children[best].order)) {
            best = r;
            best_weight = weight;
        }
    }
    return best;
}

/* Returns the report of a surviving rank about it. */
static const char *find_witness(const group *g, uint32_t cause) {
    for (uint32_t r = 0; r < g->options.rank_count; r++)
        if (r != cause && g->reports[r].code == TSR_RANK) return g->reports[r].text;
    return NULL;
}

static tsr_result judge(tsr_ctx *ctx, const group *g) {
    char end[128];
    uint32_t cause = find_cause(g);
    if (cause == UINT32_MAX) return TSR_SUCCESS;
    const rank_report *report = &g->reports[cause];
    if (report->code) {
        /* Reports about other ranks, and errors in options common to all, need no rank number. */
        if (report->code == TSR_RANK || report->code == TSR_USAGE)
            FAIL(ctx, (tsr_code)report->code, "%s", report->text);
        FAIL(ctx, (tsr_code)report->code, "rank %u: %s", cause, report->text);
    }
    describe_end(&g->children[cause], end, sizeof end);
    const char *witness = find_witness(g, cause);
    if (witness) FAIL(ctx, TSR_RANK, "rank %u %s: %s", cause, end, witness);
    char where[256] = "";
    tsr_shared_describe(g->fd, cause, where, sizeof where);
    FAIL(ctx, TSR_RANK, "rank %u %s%s%s", cause, end, where[0] ? " " : "", where);
}

static tsr_result run_once(tsr_ctx *ctx, group *g) {
    const tsr_shared_options shared = {.size_bytes = sizeof shared,
                                       .rank_count = g->options.rank_count};
    g->running = g->ended = 0;
    g->failed_at_ms = 0;
    g->killed = false;
    memset(g->reports, 0, g->options.rank_count * sizeof *g->reports);
    memset(g->children, 0, g->options.rank_count * sizeof *g->children);
    TRY(ctx, tsr_shared_create(ctx, &shared, &g->fd));
    tsr_result result = tsr_shared_create(ctx, &shared, &g->secondary_fd);
    if (result.code) {
        close(g->fd);
        return result;
    }
    for (uint32_t r = 0; r < g->options.rank_count && !result.code; r++)
        result = start_one(ctx, g, r);
    if (result.code) {
        g->killed = true;
        signal_all(g, SIGKILL);
    }
    wait_for_all(g);
    if (!result.code) result = judge(ctx, g);
    close(g->fd);
    close(g->secondary_fd);
    return result;
}

/* A new attempt may help if a rank died or hung; other errors would occur again. */
static bool is_worth_another(const group *g, tsr_result result, uint32_t tried) {
    return result.code == TSR_RANK && tried < g->options.restarts && !g->stopping;
}

static tsr_result run_all(tsr_ctx *ctx, group *g) {
    for (uint32_t tried = 0;; tried++) {
        tsr_result result = run_once(ctx, g);
        if (!is_worth_another(g, result, tried)) return result;
        tsr_log(ctx, TSR_LOG_WARNING, "%s; all ranks start again (restart %u of at most %u)",
                ctx->error.text, tried + 1, g->options.restarts);
        if (g->options.restarting) g->options.restarting(g->user, tried + 1);
    }
}

tsr_result tsr_ranks_run(tsr_ctx *ctx, const tsr_ranks_options *options, tsr_rank_body body,
                         void *user) {
    group g = {.body = body, .user = user, .parent = getpid()};
    TRY(ctx, tsr_options_copy(ctx, "tsr_ranks_options", options, &g.options, sizeof g.options));
    if (g.options.rank_count == 0 || g.options.rank_count > TSR_TRANSPORT_RANKS_MAX)
        FAIL(ctx, TSR_USAGE, "%u ranks are requested; expected 1 to %d", g.options.rank_count,
             TSR_TRANSPORT_RANKS_MAX);
    size_t bytes = g.options.rank_count * sizeof *g.reports;
    void *reports = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    g.children = calloc(g.options.rank_count, sizeof *g.children);
    tsr_result result = TSR_SUCCESS;
    if (reports == MAP_FAILED || !g.children)
        result = tsr_fail_(ctx, TSR_MEMORY, 0, __FILE__, __LINE__, "no memory for %u ranks",
                           g.options.rank_count);
    g.reports = reports;
    if (!result.code) result = run_all(ctx, &g);
    if (reports != MAP_FAILED) munmap(reports, bytes);
    free(g.children);
    return result;
}
