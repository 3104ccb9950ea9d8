/* SPDX-License-Identifier: Apache-2.0
 *
 * The child answers on a pipe: the result's code (u32), then its bytes or the error's text, then
 * end of file. stderr goes to a memory file, the note to a shared page, so that both outlive the
 * child.
 */
#include "compiler/process/child.h"

#include "runtime/base/array.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef struct child {
    const tsr_child_options *options;
    pid_t pid;
    int answer[2]; /* pipe */
    int log;       /* memory file */
    char *note;    /* shared page */
    tsr_buffer bytes;
    bool timed_out;
} child;

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- in the child ---------------------------------------------------------------------------- */

static void limit_memory(uint64_t memory_bytes) {
    char text[128] = "";
    struct rlimit none = {0, 0};
    (void)setrlimit(RLIMIT_CORE, &none);
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (!memory_bytes || fd < 0) return;
    ssize_t got = read(fd, text, sizeof text - 1);
    close(fd);
    if (got <= 0) return;
    uint64_t mapped = strtoull(text, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
    struct rlimit limit = {mapped + memory_bytes, mapped + memory_bytes};
    (void)setrlimit(RLIMIT_AS, &limit);
}

static void write_all(int fd, const void *bytes, size_t size_bytes) {
    const char *at = bytes;
    while (size_bytes) {
        ssize_t wrote = write(fd, at, size_bytes);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0) _exit(3);
        at += wrote;
        size_bytes -= (size_t)wrote;
    }
}

static _Noreturn void run_child(const child *c, tsr_child_fn run, void *user) {
    tsr_ctx ctx = {0};
    tsr_buffer out = {0};
    /* The parent reports the death: the child must not run the caller's handlers. */
    static const int deadly[] = {SIGABRT, SIGBUS,  SIGFPE,  SIGILL,
                                 SIGINT,  SIGSEGV, SIGTERM, SIGTRAP};
    for (size_t i = 0; i < TSR_COUNT(deadly); i++) signal(deadly[i], SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    limit_memory(c->options->memory_bytes);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 ||
        dup2(c->log, STDERR_FILENO) < 0)
        _exit(3);
    tsr_result result = run(&ctx, user, c->note, &out);
    if (!result.code && out.failed)
        result = tsr_fail_(&ctx, TSR_MEMORY, 0, __FILE__, __LINE__, "no memory for the result");
    uint32_t code = (uint32_t)result.code;
    write_all(c->answer[1], &code, sizeof code);
    if (code)
        write_all(c->answer[1], ctx.error.text, strlen(ctx.error.text));
    else
        write_all(c->answer[1], out.bytes, out.size_bytes);
    _exit(0);
}

/* ---- in the parent --------------------------------------------------------------------------- */

static tsr_result open_child(tsr_ctx *ctx, child *c) {
    const char *what = c->options->what;
    if (pipe2(c->answer, O_CLOEXEC)) FAIL_ERRNO(ctx, TSR_IO, errno, "%s: no pipe", what);
    c->log = memfd_create("stderr", MFD_CLOEXEC);
    if (c->log < 0) FAIL_ERRNO(ctx, TSR_IO, errno, "%s: no memory file", what);
    void *page =
        mmap(NULL, TSR_CHILD_NOTE_MAX, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) FAIL_ERRNO(ctx, TSR_MEMORY, errno, "%s: no shared page", what);
    c->note = page;
    return TSR_SUCCESS;
}

static void close_child(child *c) {
    int fds[] = {c->answer[0], c->answer[1], c->log};
    for (size_t i = 0; i < TSR_COUNT(fds); i++)
        if (fds[i] >= 0) close(fds[i]);
    if (c->note) munmap(c->note, TSR_CHILD_NOTE_MAX);
    tsr_buffer_finish(&c->bytes);
}

/* Reads until end of file or the deadline; then kills the child. */
static void read_answer(child *c, uint64_t deadline_ns) {
    char block[65536];
    for (;;) {
        uint64_t now = now_ns();
        if (now >= deadline_ns) break;
        struct pollfd wait = {.fd = c->answer[0], .events = POLLIN};
        int ready = poll(&wait, 1, (int)((deadline_ns - now) / 1000000u % 3600000u) + 1);
        if (ready < 0 && errno != EINTR) break;
        if (ready <= 0) continue;
        ssize_t got = read(c->answer[0], block, sizeof block);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return;
        tsr_buffer_append(&c->bytes, block, (size_t)got);
    }
    c->timed_out = true;
    kill(c->pid, SIGKILL);
}

/* The last line of the child's stderr, or "". */
static void read_log(const child *c, char out_text[static TSR_CHILD_TEXT_MAX]) {
    off_t size = lseek(c->log, 0, SEEK_END);
    off_t from = size > TSR_CHILD_TEXT_MAX - 1 ? size - (TSR_CHILD_TEXT_MAX - 1) : 0;
    ssize_t got = pread(c->log, out_text, TSR_CHILD_TEXT_MAX - 1, from);
    out_text[got > 0 ? got : 0] = '\0';
    size_t length = strlen(out_text);
    while (length && out_text[length - 1] == '\n') out_text[--length] = '\0';
    const char *line = strrchr(out_text, '\n');
    if (line) memmove(out_text, line + 1, strlen(line + 1) + 1);
}

static tsr_result report_death(tsr_ctx *ctx, const child *c, int status) {
    char log[TSR_CHILD_TEXT_MAX], how[64];
    read_log(c, log);
    if (c->timed_out)
        snprintf(how, sizeof how, "took longer than %g s", (double)c->options->timeout_ns / 1e9);
    else if (WIFSIGNALED(status))
        snprintf(how, sizeof how, "died of signal %d (%s)", WTERMSIG(status),
                 sigabbrev_np(WTERMSIG(status)));
    else
        snprintf(how, sizeof how, "ended with status %d", WEXITSTATUS(status));
    FAIL(ctx, TSR_INTERNAL, "%s: %s at '%s'%s%s", c->options->what, how, c->note,
         log[0] ? ": " : "", log);
}

static tsr_result take_answer(tsr_ctx *ctx, child *c, int status, tsr_arena *arena,
                              void **out_bytes, size_t *out_size_bytes) {
    uint32_t code = 0;
    bool whole = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (c->timed_out || !whole || c->bytes.size_bytes < sizeof code)
        return report_death(ctx, c, status);
    if (c->bytes.failed) FAIL(ctx, TSR_MEMORY, "%s: no memory for the result", c->options->what);
    memcpy(&code, c->bytes.bytes, sizeof code);
    if (code)
        return tsr_fail_(ctx, (tsr_code)code, 0, __FILE__, __LINE__, "%s: %s", c->options->what,
                         c->bytes.bytes + sizeof code);
    size_t size = c->bytes.size_bytes - sizeof code;
    char *bytes = tsr_arena_alloc(arena, size + 1, 1, 64);
    if (!bytes) FAIL(ctx, TSR_MEMORY, "%s: no memory for the result", c->options->what);
    memcpy(bytes, c->bytes.bytes + sizeof code, size);
    *out_bytes = bytes;
    *out_size_bytes = size;
    return TSR_SUCCESS;
}

tsr_result tsr_child_run(tsr_ctx *ctx, const tsr_child_options *options, tsr_child_fn run,
                         void *user, tsr_arena *arena, void **out_bytes, size_t *out_size_bytes) {
    child c = {.options = options, .answer = {-1, -1}, .log = -1};
    int status = 0;
    tsr_result result = TSR_SUCCESS;
    TRY_GOTO(ctx, result, open_child(ctx, &c));
    c.pid = fork();
    if (c.pid < 0) {
        result =
            tsr_fail_(ctx, TSR_MEMORY, errno, __FILE__, __LINE__, "%s: cannot fork", options->what);
        goto done;
    }
    if (c.pid == 0) run_child(&c, run, user);
    close(c.answer[1]);
    c.answer[1] = -1;
    read_answer(&c, now_ns() + options->timeout_ns);
    while (waitpid(c.pid, &status, 0) < 0)
        if (errno != EINTR) {
            result = tsr_fail_(ctx, TSR_INTERNAL, errno, __FILE__, __LINE__, "%s: lost the child",
                               options->what);
            goto done;
        }
    TRY_GOTO(ctx, result, take_answer(ctx, &c, status, arena, out_bytes, out_size_bytes));
done:
    close_child(&c);
    return result;
}
