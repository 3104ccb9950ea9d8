/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/process/guard.h"
#include "runtime/base/array.h"

#include <mlir-c/BuiltinAttributes.h>

#include <criterion/criterion.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

typedef struct seen {
    size_t count;
    tsr_diag last;
    char text[256];
} seen;

static void keep(void *user, const tsr_diag *diag) {
    seen *s = user;
    s->count++;
    s->last = *diag;
    snprintf(s->text, sizeof s->text, "%s", diag->text);
}

static tsr_result succeed(tsr_ctx *ctx, void *user) {
    (void)ctx;
    *(int *)user = 1; /* the child's own copy */
    return TSR_SUCCESS;
}

static tsr_result fail(tsr_ctx *ctx, void *user) {
    FAIL(ctx, TSR_IO, "no '%s'", (const char *)user);
}

static tsr_result die(tsr_ctx *ctx, void *user) {
    struct rlimit none = {0, 0};
    (void)ctx;
    setrlimit(RLIMIT_CORE, &none);
    tsr_guard_note("a pass");
    signal(*(int *)user, SIG_DFL);
    raise(*(int *)user);
    return TSR_SUCCESS;
}

static tsr_result leave(tsr_ctx *ctx, void *user) {
    (void)ctx;
    _exit(*(int *)user);
}

Test(guard, what_succeeds_succeeds_elsewhere) {
    tsr_ctx ctx = {0};
    seen s = {0};
    int touched = 0;
    const tsr_guard_options options = {.source = "a.mlir", .on_diag = keep, .user = &s};
    cr_assert_eq(tsr_guard_run(&ctx, &options, succeed, &touched).code, TSR_OK);
    cr_assert_eq(touched, 0);
    cr_assert_eq(s.count, 0);
}

/* Does memory that a large module would use ask for huge pages? */
static tsr_result look_for_pages(tsr_ctx *ctx, void *user) {
    enum { BYTES = 100 << 20 }; /* more than the allocator would map on its own */
    char line[512];
    unsigned char *block = malloc(BYTES);
    uintptr_t first, end, middle = (uintptr_t)block + BYTES / 2;
    bool here = false, advised = false;
    FILE *maps = fopen("/proc/self/smaps", "r");
    (void)user;
    while (maps && fgets(line, sizeof line, maps)) {
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &first, &end) == 2)
            here = first <= middle && middle < end;
        if (here && strncmp(line, "VmFlags:", 8) == 0) advised = strstr(line, " hg") != NULL;
    }
    if (maps) fclose(maps);
    free(block);
    if (!advised) FAIL(ctx, TSR_MISMATCH, "memory of the child asks for no huge pages");
    return TSR_SUCCESS;
}

Test(guard, large_modules_lie_on_huge_pages) {
    tsr_ctx ctx = {0};
    seen s = {0};
    const tsr_guard_options options = {.source = "a.mlir", .on_diag = keep, .user = &s};
    if (access("/sys/kernel/mm/transparent_hugepage", F_OK)) cr_skip_test("no huge pages here");
    cr_assert_eq(tsr_guard_run(&ctx, &options, look_for_pages, NULL).code, TSR_OK, "%s",
                 ctx.error.text);
}

Test(guard, an_error_comes_back) {
    tsr_ctx ctx = {0};
    seen s = {0};
    const tsr_guard_options options = {.source = "a.mlir", .on_diag = keep, .user = &s};
    cr_assert_eq(tsr_guard_run(&ctx, &options, fail, "file").code, TSR_IO);
    cr_assert_str_eq(ctx.error.text, "no 'file'");
    cr_assert_eq(ctx.error.code, TSR_IO);
    cr_assert_eq(s.count, 0);
}

Test(guard, a_death_is_a_diagnostic) {
    static const int numbers[] = {SIGSEGV, SIGABRT, SIGILL, SIGBUS, SIGKILL};
    for (size_t i = 0; i < TSR_COUNT(numbers); i++) {
        tsr_ctx ctx = {0};
        seen s = {0};
        int number = numbers[i];
        char expected[128];
        const tsr_guard_options options = {.source = "a.mlir", .on_diag = keep, .user = &s};
        cr_assert_eq(tsr_guard_run(&ctx, &options, die, &number).code, TSR_COMPILE);
        cr_assert_eq(s.count, 1);
        cr_assert_eq(s.last.number, TSR_DIAG_CRASH);
        cr_assert_eq(s.last.severity, TSR_SEVERITY_ERROR);
        cr_assert_str_eq(s.last.file, "a.mlir");
        snprintf(expected, sizeof expected, "the compiler died of signal %d (%s) in a pass", number,
                 sigabbrev_np(number));
        cr_assert_str_eq(s.text, expected);
        cr_assert_str_eq(ctx.error.text, expected);
    }
}

Test(guard, an_exit_is_an_internal_error) {
    tsr_ctx ctx = {0};
    seen s = {0};
    int status = 3;
    const tsr_guard_options options = {.source = "a.mlir", .on_diag = keep, .user = &s};
    cr_assert_eq(tsr_guard_run(&ctx, &options, leave, &status).code, TSR_INTERNAL);
    cr_assert(strstr(ctx.error.text, "status 3"));
}

static void expect_memory(tsr_result (*work)(tsr_ctx *ctx, void *user)) {
    tsr_ctx ctx = {0};
    seen s = {0};
    const tsr_guard_options options = {.source = "a.mlir", .on_diag = keep, .user = &s};
    cr_assert_eq(tsr_guard_run(&ctx, &options, work, NULL).code, TSR_MEMORY);
    cr_assert_eq(s.count, 1);
    cr_assert_eq(s.last.number, TSR_DIAG_MEMORY);
    cr_assert_eq(s.last.severity, TSR_SEVERITY_ERROR);
    cr_assert_str_eq(s.text, "out of memory in a pass");
    cr_assert_str_eq(ctx.error.text, "out of memory in a pass");
}

static tsr_result need(tsr_ctx *ctx, void *user) {
    (void)ctx;
    tsr_guard_note("a pass");
    TSR_NEED(ctx);
    TSR_NEED(user);
    return TSR_SUCCESS;
}

Test(guard, a_shortage_of_memory_is_a_diagnostic) { expect_memory(need); }

/* Uses up all memory, then lets MLIR allocate more. */
static tsr_result fill_mlir(tsr_ctx *ctx, void *user) {
    enum { TEXT_BYTES = 1 << 20, LARGEST_BYTES = 1 << 28 };
    static char text[TEXT_BYTES];
    const struct rlimit none = {0, 0};
    MlirContext context = mlirContextCreateWithThreading(false);
    (void)user;
    tsr_guard_note("a pass");
    if (setrlimit(RLIMIT_DATA, &none)) FAIL(ctx, TSR_IO, "no limit of memory");
    for (size_t size = LARGEST_BYTES; size >= TEXT_BYTES / 2; size /= 2) {
        void *volatile taken;
        do taken = malloc(size);
        while (taken);
    }
    mlirStringAttrGet(context, mlirStringRefCreate(text, sizeof text));
    FAIL(ctx, TSR_INTERNAL, "more memory than there is");
}

Test(guard, so_is_that_of_mlir) { expect_memory(fill_mlir); }
