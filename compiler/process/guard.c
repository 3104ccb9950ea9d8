/* SPDX-License-Identifier: Apache-2.0
 *
 * A page shared with the child holds its current activity and its result; messages come through a
 * pipe whose write end belongs to the child.
 */
#include "compiler/process/guard.h"

#include "compiler/shim/shim.h"
#include "runtime/base/array.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct board {
    char note[128];
    bool ended, failed; /* `work` returned; with an error */
    bool memory;        /* the child ended because memory ran out */
    pid_t pid;
    tsr_error error; /* its frames name files by addresses that are valid in both processes */
} board;

/* The child has one guard, shared by all its threads. */
static board *own; /* NULL in the parent */
static int message_fd = -1;

typedef struct header {
    uint64_t size_bytes; /* size of the message */
    uint32_t kind, unused;
} header;

static const int passed_on[] = {SIGHUP, SIGINT, SIGTERM};
enum { PASSED_ON_COUNT = TSR_COUNT(passed_on) };

typedef struct guarded {
    const tsr_guard_options *options;
    board *board;
    int pipe[2]; /* -1 where there are no messages */
    pid_t pid;
    struct sigaction before[PASSED_ON_COUNT];
} guarded;

/* ---- in the child ---------------------------------------------------------------------------- */

void tsr_guard_note(const char *what) {
    if (own) snprintf(own->note, sizeof own->note, "%s", what);
}

/* One write up to PIPE_BUF: messages of several threads do not mix. */
void tsr_guard_send(uint32_t kind, const void *bytes, size_t size_bytes) {
    static_assert(4000 + sizeof(header) <= PIPE_BUF, "as promised");
    header head = {.size_bytes = size_bytes, .kind = kind};
    struct iovec parts[2] = {{&head, sizeof head}, {(void *)bytes, size_bytes}};
    TSR_ASSERT(message_fd >= 0);
    for (size_t i = 0; i < 2;) {
        ssize_t wrote = writev(message_fd, parts + i, (int)(2 - i));
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0) _exit(TSR_IO); /* the parent has exited */
        for (; i < 2 && (size_t)wrote >= parts[i].iov_len; i++) wrote -= (ssize_t)parts[i].iov_len;
        if (i == 2) break;
        parts[i].iov_base = (char *)parts[i].iov_base + wrote;
        parts[i].iov_len -= (size_t)wrote;
    }
}

/* A process created by the child handles this itself: its input may be damaged and only claim to
 * need that much memory. Such a process dies in the same way as without the guard. */
void tsr_guard_end_memory(void) {
    static const char text[] = "Allocation failed\n";
    if (!own || getpid() != own->pid) {
        ssize_t wrote = write(STDERR_FILENO, text, sizeof text - 1);
        (void)wrote;
        abort();
    }
    own->memory = true;
    _exit(TSR_MEMORY);
}

/* The caller's own signal handlers must not run when a child dies. */
static void drop_handlers(void) {
    struct sigaction is;
    for (int i = 1; i < NSIG; i++)
        if (sigaction(i, NULL, &is) == 0 && is.sa_handler != SIG_IGN && is.sa_handler != SIG_DFL)
            signal(i, SIG_DFL);
    signal(SIGCHLD, SIG_DFL); /* or its own children could not be waited for */
}

/* A module is one long list in memory that every pass walks: huge pages make this a fifth faster
 * when it is larger than the caches. Freed memory keeps the madvise setting. */
static void widen_pages(void) {
    enum { HEAP_BYTES = 1 << 30, MORE_BYTES = 1 << 20, PAD_BYTES = 128 << 10 };
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), before = (uintptr_t)sbrk(0);
    if (!mallopt(M_MMAP_MAX, 0) || !mallopt(M_TRIM_THRESHOLD, INT_MAX) || !mallopt(M_MXFAST, 0) ||
        !mallopt(M_TOP_PAD, HEAP_BYTES))
        return;
    void *volatile grown = malloc(mallinfo2().keepcost + MORE_BYTES); /* grows by the pad as well */
    free(grown);
    mallopt(M_TOP_PAD, PAD_BYTES);
    uintptr_t begin = (before + page - 1) / page * page, end = (uintptr_t)sbrk(0);
    if (end > begin) madvise((void *)begin, end - begin, MADV_HUGEPAGE);
}

static _Noreturn void run_child(tsr_ctx *ctx, guarded *g,
                                TSR_RESULT (*work)(tsr_ctx *ctx, void *user), void *user) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    own = g->board;
    own->pid = getpid();
    message_fd = g->pipe[1];
    if (g->pipe[0] >= 0) close(g->pipe[0]);
    if (g->options->owns_process)
        for (size_t i = 0; i < PASSED_ON_COUNT; i++) sigaction(passed_on[i], &g->before[i], NULL);
    else
        drop_handlers();
    widen_pages();
    tsr_shim_on_no_memory(tsr_guard_end_memory);
    tsr_result result = work(ctx, user);
    errno = 0;
    if (g->options->owns_process && (fflush(stdout) != 0 || ferror(stdout)) && !result.code)
        result = tsr_fail_(ctx, TSR_IO, errno ? errno : EIO, __FILE__, __LINE__,
                           "cannot write to standard output");
    own->failed = result.code != TSR_OK;
    own->error = ctx->error;
    own->error.code = result.code;
    own->ended = true;
    _exit(0);
}

/* ---- in the parent --------------------------------------------------------------------------- */

static volatile sig_atomic_t child;
/* Held while a pipe and a process are created, so that no other child inherits an end of this
 * pipe. */
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;

static void pass_on(int number) {
    if (child > 0) kill(child, number);
}

static tsr_result report(tsr_ctx *ctx, const guarded *g, tsr_diag_number number,
                         tsr_result result) {
    const tsr_diag diag = {.number = number,
                           .severity = TSR_SEVERITY_ERROR,
                           .file = g->options->source,
                           .line = 1,
                           .column = 1,
                           .text = ctx->error.text};
    if (g->options->on_diag) g->options->on_diag(g->options->user, &diag);
    return result;
}

static tsr_result report_signal(tsr_ctx *ctx, const guarded *g, int number) {
    const char *name = sigabbrev_np(number);
    return report(ctx, g, TSR_DIAG_CRASH,
                  tsr_fail_(ctx, TSR_COMPILE, 0, __FILE__, __LINE__,
                            "the compiler died of signal %d (%s) in %s", number, name ? name : "?",
                            g->board->note));
}

static tsr_result report_memory(tsr_ctx *ctx, const guarded *g) {
    return report(
        ctx, g, TSR_DIAG_MEMORY,
        tsr_fail_(ctx, TSR_MEMORY, 0, __FILE__, __LINE__, "out of memory in %s", g->board->note));
}

/* The child was stopped from outside: a tool stops in the same way, because the input is not at
 * fault. */
static tsr_result stop(tsr_ctx *ctx, const guarded *g, int number) {
    if (g->options->owns_process) {
        signal(number, SIG_DFL);
        raise(number);
    }
    FAIL(ctx, TSR_INTERNAL, "the compiler's process was ended by signal %d (%s) in %s", number,
         sigabbrev_np(number), g->board->note);
}

/* Waits for the child to end; -1 with errno. */
static pid_t reap(const guarded *g, int *out_status) {
    pid_t got;
    while ((got = waitpid(g->pid, out_status, 0)) < 0 && errno == EINTR) {
    }
    child = 0;
    return got;
}

static tsr_result wait_for(tsr_ctx *ctx, const guarded *g) {
    const board *b = g->board;
    int status = 0;
    pid_t got = reap(g, &status);
    int error = errno;
    g->board->note[sizeof g->board->note - 1] = '\0'; /* the child may have written anywhere before
                                                       * it died */
    if (b->memory) return report_memory(ctx, g);
    if (b->ended && b->failed) {
        ctx->error = b->error;
        return (tsr_result){b->error.code};
    }
    if (b->ended) return TSR_SUCCESS;
    if (got < 0) /* a caller that waits for every child may have been first */
        FAIL_ERRNO(ctx, TSR_INTERNAL, error, "lost the compiler's process in %s", b->note);
    if (WIFEXITED(status))
        FAIL(ctx, TSR_INTERNAL, "the compiler's process ended with status %d in %s",
             WEXITSTATUS(status), b->note);
    for (size_t i = 0; i < PASSED_ON_COUNT; i++)
        if (WTERMSIG(status) == passed_on[i]) return stop(ctx, g, passed_on[i]);
    return report_signal(ctx, g, WTERMSIG(status));
}

/* Returns false at the end of the stream, also if the stream ends too early. */
static bool read_all(int fd, size_t size_bytes, tsr_buffer *out) {
    char block[65536];
    while (size_bytes) {
        ssize_t got = read(fd, block, size_bytes < sizeof block ? size_bytes : sizeof block);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        tsr_buffer_append(out, block, (size_t)got);
        size_bytes -= (size_t)got;
    }
    return true;
}

static tsr_result receive(tsr_ctx *ctx, const guarded *g) {
    tsr_buffer head = {0}, body = {0};
    tsr_result result = TSR_SUCCESS;
    while (!result.code && read_all(g->pipe[0], sizeof(header), &head) && !head.failed) {
        header h;
        memcpy(&h, head.bytes, sizeof h);
        head.size_bytes = body.size_bytes = 0;
        if (!read_all(g->pipe[0], h.size_bytes, &body)) break;
        if (body.failed)
            FAIL_GOTO(ctx, result, TSR_MEMORY,
                      "no memory for %" PRIu64 " bytes of the compiler's process", h.size_bytes);
        result = g->options->on_message(ctx, g->options->user, h.kind,
                                        body.size_bytes ? body.bytes : "", body.size_bytes);
    }
done:
    if (result.code) kill(g->pid, SIGKILL);
    tsr_buffer_finish(&head);
    tsr_buffer_finish(&body);
    return result;
}

static tsr_result start(tsr_ctx *ctx, guarded *g) {
    void *page =
        mmap(NULL, sizeof *g->board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        FAIL_ERRNO(ctx, TSR_MEMORY, errno, "no page for the compiler's process");
    g->board = page;
    snprintf(g->board->note, sizeof g->board->note, "its start");
    if (g->options->on_message && pipe2(g->pipe, O_CLOEXEC))
        FAIL_ERRNO(ctx, TSR_MEMORY, errno, "no pipe for the compiler's process");
    return TSR_SUCCESS;
}

/* Does not return in the child. */
static tsr_result make_child(tsr_ctx *ctx, guarded *g, TSR_RESULT (*work)(tsr_ctx *ctx, void *user),
                             void *user) {
    tsr_result result = start(ctx, g);
    if (result.code) return result;
    g->pid = fork();
    if (g->pid == 0) run_child(ctx, g, work, user);
    if (g->pid < 0) FAIL_ERRNO(ctx, TSR_MEMORY, errno, "no process for the compiler");
    if (g->pipe[1] >= 0) close(g->pipe[1]);
    g->pipe[1] = -1;
    return TSR_SUCCESS;
}

static tsr_result supervise(tsr_ctx *ctx, const guarded *g) {
    if (g->options->owns_process) child = g->pid;
    tsr_result received = g->options->on_message ? receive(ctx, g) : TSR_SUCCESS;
    int status;
    if (!received.code) return wait_for(ctx, g);
    reap(g, &status); /* it was killed because of the message, so its status is not reported */
    return received;
}

tsr_result tsr_guard_run(tsr_ctx *ctx, const tsr_guard_options *options,
                         TSR_RESULT (*work)(tsr_ctx *ctx, void *user), void *user) {
    const struct sigaction forward = {.sa_handler = pass_on};
    guarded g = {.options = options, .pipe = {-1, -1}};
    TSR_ASSERT(!own);
    if (options->owns_process) {
        fflush(NULL); /* or both processes would write it */
        for (size_t i = 0; i < PASSED_ON_COUNT; i++)
            sigaction(passed_on[i], &forward, &g.before[i]);
    }
    pthread_mutex_lock(&making);
    tsr_result result = make_child(ctx, &g, work, user);
    pthread_mutex_unlock(&making);
    if (!result.code) result = supervise(ctx, &g);
    if (options->owns_process)
        for (size_t i = 0; i < PASSED_ON_COUNT; i++) sigaction(passed_on[i], &g.before[i], NULL);
    for (size_t i = 0; i < 2; i++)
        if (g.pipe[i] >= 0) close(g.pipe[i]);
    if (g.board) munmap(g.board, sizeof *g.board);
    return result;
}
