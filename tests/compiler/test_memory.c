/* SPDX-License-Identifier: Apache-2.0
 *
 * The n-th allocation of ours fails, for every n: the pass says so (TSR-0008), and nothing crashes.
 * The linker sends malloc, calloc, realloc and those of arenas here. A pass that builds ops has
 * only its arenas fail: MLIR, which is linked in, makes ops by malloc, too, and cannot do without.
 */
#include "tests/compiler/fixture.h"

#include <stdlib.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);

void *__real_tsr_arena_alloc(tsr_arena *arena, size_t count, size_t size, size_t align);
void *__wrap_tsr_arena_alloc(tsr_arena *arena, size_t count, size_t size, size_t align);

static enum { NOTHING, MEMORY, ARENAS } armed;
static unsigned allocations, failing;

static bool fails(unsigned what) { return armed == what && allocations++ == failing; }
void *__wrap_malloc(size_t size) { return fails(MEMORY) ? NULL : __real_malloc(size); }
void *__wrap_calloc(size_t count, size_t size) {
    return fails(MEMORY) ? NULL : __real_calloc(count, size);
}
void *__wrap_realloc(void *memory, size_t size) {
    return fails(MEMORY) ? NULL : __real_realloc(memory, size);
}
void *__wrap_tsr_arena_alloc(tsr_arena *arena, size_t count, size_t size, size_t align) {
    return fails(ARENAS) ? NULL : __real_tsr_arena_alloc(arena, count, size, align);
}

bool tsr_pass_name_calls(MlirModule module);
bool tsr_pass_resilience_restart(MlirModule module);

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

/* How many allocations there are to fail. */
static unsigned fail_each(const char *text, unsigned what, bool (*pass)(MlirModule module)) {
    for (failing = 0;; failing++) {
        fixture f;
        fixture_open(&f);
        f.list.on_diag = count_memory;
        reported = 0;
        cr_assert_eq(fixture_parse(&f, text).code, TSR_OK);
        allocations = 0;
        armed = what;
        bool done = pass(f.module);
        armed = NOTHING;
        bool hit = allocations > failing;
        /* The record itself needs memory, too: the first failure is the pass's own. */
        cr_assert_eq(done, !hit, "allocation %u", failing);
        cr_assert_eq(reported, hit ? 1u : 0u, "allocation %u", failing);
        fixture_close(&f);
        if (!hit) return failing;
    }
}

Test(memory, every_allocation_may_fail) {
    cr_assert_gt(fail_each(program, MEMORY, tsr_pass_name_calls), 0u);
}

/* An import, and two regions: one is exported, one reads what the other gives. */
static const char regions[] =
    "func.func @f() attributes {tessera.entry = \"train\"} {\n"
    "  %w = tessera.param \"w\" init = #tessera.constant<1.0> : tensor<f32>\n"
    "  %i, %old = tessera.target.import \"first\" : !tessera_sr.token, tensor<f32>\n"
    "  %t, %x = tessera.resilience.region {name = \"first\"} {\n"
    "    %a = tessera.exp %w : tensor<f32>\n"
    "    tessera.yield %a : tensor<f32>\n"
    "  } : !tessera_sr.token, tensor<f32>\n"
    "  tessera.target.export %t : !tessera_sr.token\n"
    "  %u, %y = tessera.resilience.region {name = \"second\"} {\n"
    "    %b = tessera.add %x, %old : tensor<f32>, tensor<f32> -> tensor<f32>\n"
    "    tessera.yield %b : tensor<f32>\n"
    "  } : !tessera_sr.token, tensor<f32>\n"
    "  %z = tessera.neg %y : tensor<f32>\n"
    "  tessera.assign %z to \"w\" : tensor<f32>\n"
    "  return\n"
    "}\n";

Test(memory, regions_are_ordered_or_not_at_all) {
    cr_assert_gt(fail_each(regions, ARENAS, tsr_pass_resilience_restart), 0u);
}
