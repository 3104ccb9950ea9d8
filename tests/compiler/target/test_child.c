/* SPDX-License-Identifier: Apache-2.0
 *
 * A child's result, its error, and every way in which it can die.
 */
#include "compiler/process/child.h"
#include "runtime/base/array.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef enum way { ANSWER, LARGE, ERROR, ABORT, SEGFAULT, EXIT, SLEEP, MEMORY } way;

static tsr_result behave(tsr_ctx *ctx, void *user, char note[static TSR_CHILD_NOTE_MAX],
                         tsr_buffer *out) {
    snprintf(note, TSR_CHILD_NOTE_MAX, "kernel_7");
    switch (*(way *)user) {
    case ANSWER:
        tsr_buffer_append(out, "a\0b", 3);
        break;
    case LARGE:
        for (int i = 0; i < 100000; i++) tsr_buffer_printf(out, "%09d\n", i);
        break;
    case ERROR:
        FAIL(ctx, TSR_COMPILE, "no such thing");
    case ABORT:
        fprintf(stderr, "first line\nLLVM ERROR: Cannot select\n");
        abort();
    case SEGFAULT:
        raise(SIGSEGV);
        break;
    case EXIT:
        _exit(0);
    case SLEEP:
        sleep(60);
        break;
    case MEMORY:
        if (mmap(NULL, (size_t)1 << 32, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
            MAP_FAILED)
            FAIL(ctx, TSR_MEMORY, "refused");
        break;
    }
    return TSR_SUCCESS;
}

static tsr_result run(tsr_ctx *ctx, way how, tsr_arena *arena, void **bytes, size_t *size) {
    tsr_child_options options = {
        .what = "test", .memory_bytes = 1u << 30, .timeout_ns = 300 * UINT64_C(1000000)};
    if (how == LARGE) options.timeout_ns = UINT64_C(60000000000);
    return tsr_child_run(ctx, &options, behave, &how, arena, bytes, size);
}

Test(child, answers) {
    tsr_ctx ctx = {0};
    tsr_arena arena = {0};
    void *bytes = NULL;
    size_t size = 0;
    cr_assert(run(&ctx, ANSWER, &arena, &bytes, &size).code == TSR_OK, "%s", ctx.error.text);
    cr_assert(size == 3 && memcmp(bytes, "a\0b", 4) == 0);
    cr_assert(run(&ctx, LARGE, &arena, &bytes, &size).code == TSR_OK);
    cr_assert(size == 1000000 && memcmp((char *)bytes + 999990, "000099999\n", 11) == 0);
    tsr_arena_finish(&arena);
}

Test(child, fails) {
    static const struct {
        way way;
        tsr_code code;
        const char *texts[3];
    } cases[] = {
        {ERROR, TSR_COMPILE, {"test: no such thing", "", ""}},
        {ABORT, TSR_INTERNAL, {"ABRT", "kernel_7", "LLVM ERROR: Cannot select"}},
        {SEGFAULT, TSR_INTERNAL, {"SEGV", "kernel_7", ""}},
        {EXIT, TSR_INTERNAL, {"status 0", "kernel_7", ""}},
        {SLEEP, TSR_INTERNAL, {"longer than 0.3 s", "kernel_7", ""}},
        {MEMORY, TSR_MEMORY, {"refused", "", ""}},
    };
    for (size_t i = 0; i < TSR_COUNT(cases); i++) {
        tsr_ctx ctx = {0};
        tsr_arena arena = {0};
        void *bytes = NULL;
        size_t size = 0;
        tsr_result result = run(&ctx, cases[i].way, &arena, &bytes, &size);
        cr_assert(result.code == cases[i].code && !bytes, "case %zu: %s", i, ctx.error.text);
        for (int t = 0; t < 3; t++)
            cr_assert(strstr(ctx.error.text, cases[i].texts[t]), "case %zu: %s", i, ctx.error.text);
        cr_assert(!strstr(ctx.error.text, "first line"));
        tsr_arena_finish(&arena);
    }
}
