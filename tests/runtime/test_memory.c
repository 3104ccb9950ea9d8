/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/array.h"
#include "runtime/exec/memory.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

Test(memory, is_at_most_what_the_system_has_available) {
    char line[256];
    uint64_t kib = 0;
    FILE *file = fopen("/proc/meminfo", "r");
    cr_assert_not_null(file);
    while (fgets(line, sizeof line, file)) sscanf(line, "MemTotal: %" SCNu64 " kB", &kib);
    fclose(file);
    uint64_t available = tsr_memory_get_available();
    cr_assert_gt(available, 0);
    cr_assert_leq(available, (uint64_t)kib * 1024);
}

Test(memory, refuses_more_with_both_values) {
    tsr_ctx ctx = {0};
    cr_assert_eq(tsr_memory_check(&ctx, "'x.tsb'", 1).code, TSR_OK);
    cr_assert_eq(tsr_memory_check(&ctx, "'x.tsb'", UINT64_MAX - 1).code, TSR_MEMORY);
    cr_assert(strstr(ctx.error.text, "'x.tsb' plans 18446744073709551614 bytes of memory; "), "%s",
              ctx.error.text);
}

Test(memory, counts_the_limit_of_the_address_space) {
    enum { LIMIT = 1 << 30 };
    struct rlimit limit;
    cr_assert_eq(getrlimit(RLIMIT_AS, &limit), 0);
    limit.rlim_cur = LIMIT;
    if (setrlimit(RLIMIT_AS, &limit) != 0) cr_skip_test("the limit cannot be lowered");
    uint64_t available = tsr_memory_get_available();
    limit.rlim_cur = limit.rlim_max;
    cr_assert_eq(setrlimit(RLIMIT_AS, &limit), 0);
    cr_assert_lt(available, LIMIT);
}

Test(memory, measures_what_was_written_of_a_workspace) {
    uint8_t workspace[4 * 64 + 8];
    const struct {
        uint64_t at, reached, written;
    } rows[] = {{0, 64, 64}, {63, 64, 64}, {64, 128, 64}, {200, 256, 64}, {263, 264, 8}};
    tsr_memory_mark(workspace, sizeof workspace);
    tsr_workspace_use use = tsr_memory_measure(workspace, sizeof workspace);
    cr_assert_eq(use.planned_bytes, sizeof workspace);
    cr_assert_eq(use.reached_bytes + use.written_bytes, 0);
    for (size_t i = 0; i < TSR_COUNT(rows); i++) {
        tsr_memory_mark(workspace, sizeof workspace);
        workspace[rows[i].at] = 0;
        use = tsr_memory_measure(workspace, sizeof workspace);
        cr_assert_eq(use.reached_bytes, rows[i].reached, "byte %zu", (size_t)rows[i].at);
        cr_assert_eq(use.written_bytes, rows[i].written, "byte %zu", (size_t)rows[i].at);
    }
    tsr_memory_mark(NULL, 0);
    cr_assert_eq(tsr_memory_measure(NULL, 0).reached_bytes, 0);
}
