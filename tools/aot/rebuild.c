/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/aot/rebuild.h"

#include "runtime/base/array.h"
#include "runtime/base/hash/hash.h"
#include "runtime/base/io/io.h"
#include "runtime/base/plural.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char epoch_name[] = "SOURCE_DATE_EPOCH";

enum {
    BLOCK_BYTES = 1 << 20,
    NICE_STEP = 1,
    STACK_BYTES = 64 << 20, /* the usual limit is 8 MiB */
};

tsr_result tsr_aot_source_date(tsr_ctx *ctx, tsr_arena *arena, const char **out_text) {
    const char *text = getenv(epoch_name);
    struct tm utc;
    char date[40];
    *out_text = NULL;
    if (!text || !text[0]) return TSR_SUCCESS;
    size_t digits = strspn(text, "0123456789");
    time_t seconds = digits && digits <= 11 && !text[digits] ? (time_t)strtoll(text, NULL, 10) : -1;
    if (seconds < 0 || !gmtime_r(&seconds, &utc))
        FAIL(ctx, TSR_USAGE, "build: %s is '%s'; expected seconds since 1970", epoch_name, text);
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &utc);
    *out_text = tsr_arena_strdup(arena, date);
    if (!*out_text) FAIL(ctx, TSR_MEMORY, "no memory for a date");
    return TSR_SUCCESS;
}

/* ---- the second build ---- */

/* Copies the arguments with another output, without flags that dump stages, and with one thread. */
static char **change_arguments(tsr_arena *arena, int argc, char **argv, char *output) {
    static const char *const dropped[] = {"-o", "--threads", "--dump", "--dump-dir"};
    char **changed = TSR_NEW(arena, char *, (size_t)argc + 8);
    size_t count = 0;
    if (!changed) return NULL;
    changed[count++] = (char *)"tessera-aot";
    changed[count++] = (char *)"build";
    for (int i = 0; i < argc; i++) {
        bool drop = strcmp(argv[i], "--verify-rebuild") == 0 || strcmp(argv[i], "--timing") == 0;
        for (size_t k = 0; k < TSR_COUNT(dropped) && !drop; k++) {
            size_t length = strlen(dropped[k]);
            if (strncmp(argv[i], dropped[k], length) != 0) continue;
            drop = argv[i][length] == '=' || !argv[i][length];
            i += !argv[i][length]; /* its value is the next word */
        }
        if (!drop) changed[count++] = argv[i];
    }
    changed[count++] = (char *)"--threads=1";
    changed[count++] = (char *)"-o";
    changed[count++] = output;
    return changed;
}

static char **change_environment(tsr_arena *arena) {
    const char *path = getenv("PATH"), *epoch = getenv(epoch_name);
    char **changed = TSR_NEW(arena, char *, 10);
    size_t count = 0;
    if (!changed) return NULL;
    changed[count++] = (char *)"LC_ALL=tr_TR.UTF-8";
    changed[count++] = (char *)"LANGUAGE=tr";
    changed[count++] = (char *)"TZ=Pacific/Kiritimati";
    changed[count++] = (char *)"HOME=/nonexistent";
    changed[count++] = (char *)"USER=somebody";
    changed[count++] = (char *)"COLUMNS=17";
    if (path) changed[count++] = tsr_arena_printf(arena, "PATH=%s", path);
    if (epoch) changed[count++] = tsr_arena_printf(arena, "%s=%s", epoch_name, epoch);
    return changed;
}

/* Runs in the child before it becomes the second build. Changes its memory layout: it inverts
 * address randomisation and uses another stack size. */
static void change_process(void) {
    struct rlimit stack;
    int flags = personality(0xffffffff);
    if (flags != -1) personality((unsigned long)flags ^ ADDR_NO_RANDOMIZE);
    if (getrlimit(RLIMIT_STACK, &stack) == 0) {
        rlim_t wanted = STACK_BYTES;
        stack.rlim_cur = stack.rlim_max < wanted ? stack.rlim_max : wanted;
        setrlimit(RLIMIT_STACK, &stack);
    }
    umask(umask(0) ^ 077);
    if (nice(NICE_STEP) < 0) return; /* on failure it builds at the same priority */
}

static tsr_result run_again(tsr_ctx *ctx, char *const *arguments, char *const *environment) {
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child < 0) FAIL_ERRNO(ctx, TSR_IO, errno, "cannot start the second build");
    if (child == 0) {
        change_process();
        execve("/proc/self/exe", arguments, environment);
        _exit(TSR_IO);
    }
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) FAIL_ERRNO(ctx, TSR_IO, errno, "cannot wait for the second build");
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return TSR_SUCCESS;
    FAIL(ctx, TSR_DIFFERENT, "the second build failed with %s %d; expected it to succeed too",
         WIFEXITED(status) ? "exit code" : "signal",
         WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}

/* ---- comparing ---- */

typedef struct side {
    const char *path;
    int fd;
    uint64_t size;
    unsigned char *block; /* allocated in the arena */
} side;

static tsr_result open_side(tsr_ctx *ctx, tsr_arena *arena, const char *path, side *out) {
    *out = (side){.path = path, .fd = -1, .block = tsr_arena_alloc(arena, BLOCK_BYTES, 1, 64)};
    if (!out->block) FAIL(ctx, TSR_MEMORY, "no memory to compare '%s'", path);
    TRY(ctx, tsr_io_open(ctx, path, O_RDONLY, 0, &out->fd));
    return tsr_io_file_size(ctx, out->fd, path, &out->size);
}

static tsr_result compare(tsr_ctx *ctx, side *first, side *second, tsr_digest *out_digest) {
    tsr_hasher hasher;
    tsr_hasher_init(&hasher);
    if (first->size != second->size)
        FAIL(ctx, TSR_DIFFERENT,
             "'%s' has %" PRIu64 " byte%s and the second build '%s' %" PRIu64
             ": see tessera-aot diff",
             first->path, first->size, TSR_PLURAL(first->size), second->path, second->size);
    for (uint64_t at = 0; at < first->size;) {
        uint64_t left = first->size - at;
        size_t size = left < BLOCK_BYTES ? (size_t)left : BLOCK_BYTES, same = 0;
        TRY(ctx, tsr_io_read_exact(ctx, first->fd, first->path, first->block, size, at));
        TRY(ctx, tsr_io_read_exact(ctx, second->fd, second->path, second->block, size, at));
        while (same < size && first->block[same] == second->block[same]) same++;
        if (same < size)
            FAIL(ctx, TSR_DIFFERENT,
                 "'%s' and the second build '%s' differ from byte %" PRIu64
                 " on: see tessera-aot diff",
                 first->path, second->path, at + same);
        tsr_hasher_update(&hasher, first->block, size);
        at += size;
    }
    *out_digest = tsr_hasher_finish(&hasher);
    return TSR_SUCCESS;
}

tsr_result tsr_aot_verify_rebuild(tsr_ctx *ctx, int argc, char **argv, const char *output) {
    const tsr_io *io = tsr_ctx_io(ctx);
    tsr_arena arena = {0};
    side first = {.fd = -1}, second = {.fd = -1};
    tsr_digest digest;
    char hex[TSR_DIGEST_HEX + 1];
    tsr_result result;
    char *path = tsr_arena_printf(&arena, "%s.rebuild", output);
    char **arguments = path ? change_arguments(&arena, argc, argv, path) : NULL;
    char **environment = change_environment(&arena);
    if (!arguments || !environment)
        FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory to build '%s' again", output);
    TRY_GOTO(ctx, result, run_again(ctx, arguments, environment));
    TRY_GOTO(ctx, result, open_side(ctx, &arena, output, &first));
    TRY_GOTO(ctx, result, open_side(ctx, &arena, path, &second));
    TRY_GOTO(ctx, result, compare(ctx, &first, &second, &digest));
    io->unlink(io->self, TSR_IO_CWD, path, 0);
    tsr_digest_format(&digest, hex);
    printf("%s: built twice, the same bytes: sha256:%s\n", output, hex);
done:
    if (first.fd >= 0) io->close(io->self, first.fd);
    if (second.fd >= 0) io->close(io->self, second.fd);
    tsr_arena_finish(&arena);
    return result;
}
