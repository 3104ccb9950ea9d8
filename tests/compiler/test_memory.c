/* SPDX-License-Identifier: Apache-2.0
 *
 * The n-th allocation of ours fails, for every n: the pass says so (TSR-0008), and nothing crashes.
 * The linker sends malloc, calloc and realloc here while `armed`.
 */
#include "tests/compiler/fixture.h"

#include <stdlib.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);

static bool armed;
static unsigned allocations, failing;

static bool fails(void) { return armed && allocations++ == failing; }
void *__wrap_malloc(size_t size) { return fails() ? NULL : __real_malloc(size); }
void *__wrap_calloc(size_t count, size_t size) {
    return fails() ? NULL : __real_calloc(count, size);
}
void *__wrap_realloc(void *memory, size_t size) {
    return fails() ? NULL : __real_realloc(memory, size);
}

bool tsr_pass_name_calls(MlirModule module);

static const char program[] = "func.func @f() attributes {tessera.entry = \"train\"} {\n"
                              "  %0 = tessera.random_normal : tensor<4xf32>\n"
                              "  %1 = tessera.random_uniform : tensor<4xf32>\n"
                              "  return\n"
                              "}\n";

static unsigned reported;
static void count_memory(void *user, const tsr_diag *diag) {
    (void)user;
    reported += diag->number == TSR_DIAG_MEMORY;
}

Test(memory, every_allocation_may_fail) {
    for (failing = 0;; failing++) {
        fixture f;
        fixture_open(&f);
        f.list.on_diag = count_memory;
        reported = 0;
        cr_assert_eq(fixture_parse(&f, program).code, TSR_OK);
        allocations = 0;
        armed = true;
        bool done = tsr_pass_name_calls(f.module);
        armed = false;
        bool hit = allocations > failing;
        /* The record itself needs memory, too: the first failure is the pass's own. */
        cr_assert_eq(done, !hit);
        cr_assert_eq(reported, hit ? 1u : 0u);
        fixture_close(&f);
        if (!hit) break;
    }
    cr_assert_gt(failing, 0u);
}
