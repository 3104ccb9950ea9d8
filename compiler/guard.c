/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/guard.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Shared with the child; NULL outside of tsr_guard_run. */
static struct board {
    char note[128];
    bool in_child, failed;
    tsr_error error; /* its frames name files by addresses that both have */
} * board;

void tsr_guard_note(const char *what) {
    if (board) snprintf(board->note, sizeof board->note, "%s", what);
}

void tsr_guard_limit(unsigned seconds) {
    if (board && board->in_child) alarm(seconds);
}

static volatile sig_atomic_t child;

static void pass_on(int number) {
    if (child > 0) kill(child, number);
}

static const int passed_on[] = {SIGHUP, SIGINT, SIGTERM};
enum { PASSED_ON_COUNT = sizeof passed_on / sizeof passed_on[0] };

static tsr_result report(tsr_ctx *ctx, const tsr_guard_options *options, int number) {
    const char *name = sigabbrev_np(number), *where = board->note[0] ? board->note : "its start";
    tsr_result result =
        tsr_fail_(ctx, TSR_COMPILE, 0, __FILE__, __LINE__,
                  "the compiler died of signal %d (%s) in %s", number, name ? name : "?", where);
    const tsr_diag diag = {.number = TSR_DIAG_CRASH,
                           .severity = TSR_SEVERITY_ERROR,
                           .file = options->source,
                           .line = 1,
                           .column = 1,
                           .text = ctx->error.text};
    options->on_diag(options->user, &diag);
    return result;
}

static tsr_result wait_for(tsr_ctx *ctx, const tsr_guard_options *options, pid_t pid) {
    int status = 0;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR) FAIL_ERRNO(ctx, TSR_INTERNAL, errno, "lost the compiler's process");
    child = 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && !board->failed) return TSR_SUCCESS;
    if (WIFEXITED(status) && board->failed) {
        ctx->error = board->error;
        return (tsr_result){board->error.code};
    }
    if (WIFEXITED(status))
        FAIL(ctx, TSR_INTERNAL, "the compiler's process ended with status %d in %s",
             WEXITSTATUS(status), board->note);
    for (size_t i = 0; i < PASSED_ON_COUNT; i++)
        if (WTERMSIG(status) == passed_on[i]) { /* stopped from outside: so is the parent */
            signal(passed_on[i], SIG_DFL);
            raise(passed_on[i]);
        }
    return report(ctx, options, WTERMSIG(status));
}

static _Noreturn void run_child(tsr_ctx *ctx, TSR_RESULT (*work)(tsr_ctx *ctx, void *user),
                                void *user, const struct sigaction *before) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    board->in_child = true;
    for (size_t i = 0; i < PASSED_ON_COUNT; i++) sigaction(passed_on[i], &before[i], NULL);
    tsr_result result = work(ctx, user);
    if (fflush(stdout) != 0 && !result.code)
        result = tsr_fail_(ctx, TSR_IO, errno, __FILE__, __LINE__,
                           "cannot write to standard output: %s", strerror(errno));
    board->failed = result.code != TSR_OK;
    board->error = ctx->error;
    board->error.code = result.code;
    _exit(0);
}

tsr_result tsr_guard_run(tsr_ctx *ctx, const tsr_guard_options *options,
                         TSR_RESULT (*work)(tsr_ctx *ctx, void *user), void *user) {
    struct sigaction forward = {.sa_handler = pass_on}, before[PASSED_ON_COUNT];
    TSR_ASSERT(!board);
    void *page =
        mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return work(ctx, user);
    board = page;
    fflush(NULL); /* or both would write it */
    for (size_t i = 0; i < PASSED_ON_COUNT; i++) sigaction(passed_on[i], &forward, &before[i]);
    pid_t pid = fork();
    if (pid == 0) run_child(ctx, work, user, before);
    child = pid;
    tsr_result result = pid < 0 ? work(ctx, user) : wait_for(ctx, options, pid);
    for (size_t i = 0; i < PASSED_ON_COUNT; i++) sigaction(passed_on[i], &before[i], NULL);
    munmap(board, sizeof *board);
    board = NULL;
    return result;
}
