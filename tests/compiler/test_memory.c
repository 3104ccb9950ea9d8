/* SPDX-License-Identifier: Apache-2.0
 *
 * Our n-th allocation fails, for every n: the pass reports it (TSR-0008), and nothing crashes. The
 * linker redirects malloc, calloc, realloc and those of arenas to this file. For a pass that builds
 * ops only its arenas and calloc fail: MLIR, which is linked in, also allocates ops by malloc and
 * does not survive a failure. If such a pass cannot report the failure, its guard does.
 */
#include "compiler/passes.h"
#include "compiler/process/guard.h"
#include "compiler/resilience/passes.h"
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

static enum { NOTHING, MEMORY, ARENAS, CALLOCS } armed;
static unsigned allocations, failing;

static bool fails(unsigned what) { return armed == what && allocations++ == failing; }
void *__wrap_malloc(size_t size) { return fails(MEMORY) ? NULL : __real_malloc(size); }
void *__wrap_calloc(size_t count, size_t size) {
    return fails(MEMORY) || fails(CALLOCS) ? NULL : __real_calloc(count, size);
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

/* Returns the number of allocations that can fail. */
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
        /* The record itself also needs memory: the first failure is that of the pass. */
        cr_assert_eq(done, !hit, "allocation %u", failing);
        cr_assert_eq(reported, hit ? 1u : 0u, "allocation %u", failing);
        fixture_close(&f);
        if (!hit) return failing;
    }
}

Test(memory, every_allocation_may_fail) {
    cr_assert_gt(fail_each(program, MEMORY, tsr_pass_name_calls), 0u);
}

/* An import and two regions: one is exported, the other reads its results. */
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

typedef struct job {
    const char *text;
    unsigned what;
    bool (*pass)(MlirModule module);
} job;

/* Runs in a guard, which ends if an allocation fails. */
static tsr_result run_job(tsr_ctx *ctx, void *user) {
    const job *j = user;
    fixture f;
    fixture_open(&f);
    TRY(ctx, fixture_parse(&f, j->text));
    tsr_guard_note("a pass");
    allocations = 0;
    armed = j->what;
    bool done = j->pass(f.module);
    armed = NOTHING;
    fixture_close(&f);
    if (allocations > failing) FAIL(ctx, TSR_INTERNAL, "allocation %u is not missed", failing);
    if (!done) FAIL(ctx, TSR_COMPILE, "the pass failed");
    return TSR_SUCCESS;
}

static unsigned guard_each(const char *text, unsigned what, bool (*pass)(MlirModule module)) {
    job j = {text, what, pass};
    const tsr_guard_options options = {.source = "test.mlir", .on_diag = count_memory};
    for (failing = 0;; failing++) {
        tsr_ctx ctx = {0};
        reported = 0;
        tsr_result result = tsr_guard_run(&ctx, &options, run_job, &j);
        if (!result.code) return failing;
        cr_assert_eq(result.code, TSR_MEMORY, "allocation %u: %s", failing, ctx.error.text);
        cr_assert_eq(reported, 1u);
    }
}

/* A scan, a while and an if, and products whose results are saved for the gradient. */
static const char loops[] =
    "func.func @f(%rows: tensor<40x8x8xf32> {tessera.data = \"rows\"}, %c: tensor<i1> "
    "{tessera.data = \"c\"}) attributes {tessera.entry = \"train\"} {\n"
    "  %w = tessera.param \"w\" init = #tessera.constant<1.0> : tensor<8x8xf32>\n"
    "  %zero = tessera.constant dense<0> : tensor<i64>\n"
    "  %s:2 = \"tessera.scan\"(%w, %rows) ({\n"
    "  ^bb0(%a: tensor<8x8xf32>, %row: tensor<8x8xf32>):\n"
    "    %p = tessera.matmul %a, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>\n"
    "    %q = tessera.add %p, %row : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>\n"
    "    %t = tessera.transpose %q {permutation = [1, 0]} : tensor<8x8xf32> -> tensor<8x8xf32>\n"
    "    %u = tessera.tanh %t : tensor<8x8xf32>\n"
    "    tessera.yield %u, %p : tensor<8x8xf32>, tensor<8x8xf32>\n"
    "  }) {carried = 1 : i64} : (tensor<8x8xf32>, tensor<40x8x8xf32>) -> (tensor<8x8xf32>, "
    "tensor<40x8x8xf32>)\n"
    "  %n:2 = \"tessera.while\"(%zero, %s#0) ({\n"
    "  ^bb0(%i: tensor<i64>, %a: tensor<8x8xf32>):\n"
    "    %five = tessera.constant dense<5> : tensor<i64>\n"
    "    %less = \"tessera.compare\"(%i, %five) {predicate = 2 : i32} : (tensor<i64>, "
    "tensor<i64>) -> tensor<i1>\n"
    "    tessera.yield %less : tensor<i1>\n"
    "  }, {\n"
    "  ^bb0(%i: tensor<i64>, %a: tensor<8x8xf32>):\n"
    "    %one = tessera.constant dense<1> : tensor<i64>\n"
    "    %j = tessera.add %i, %one : tensor<i64>, tensor<i64> -> tensor<i64>\n"
    "    %b = tessera.mul %a, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>\n"
    "    tessera.yield %j, %b : tensor<i64>, tensor<8x8xf32>\n"
    "  }) {limit = 40 : i64} : (tensor<i64>, tensor<8x8xf32>) -> (tensor<i64>, "
    "tensor<8x8xf32>)\n"
    "  %y = \"tessera.if\"(%c) ({\n"
    "    %a = tessera.exp %n#1 : tensor<8x8xf32>\n"
    "    tessera.yield %a : tensor<8x8xf32>\n"
    "  }, {\n"
    "    %a = tessera.mul %n#1, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>\n"
    "    tessera.yield %a : tensor<8x8xf32>\n"
    "  }) : (tensor<i1>) -> tensor<8x8xf32>\n"
    "  %all = tessera.sum %s#1 {axes = [0]} : tensor<40x8x8xf32> -> tensor<8x8xf32>\n"
    "  %z = tessera.add %y, %all : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>\n"
    "  %loss = tessera.sum %z {axes = [0, 1]} : tensor<8x8xf32> -> tensor<f32>\n"
    "  tessera.minimize %loss {optimizer = #tessera.sgd<lr = 0.1, momentum = 0.0, weight_decay = "
    "0.0>} : tensor<f32>\n"
    "  return\n"
    "}\n";

Test(memory, gradients_of_loops_end_or_are_whole) {
    cr_assert_gt(guard_each(loops, ARENAS, tsr_pass_autodiff), 50u);
    cr_assert_gt(guard_each(loops, CALLOCS, tsr_pass_autodiff), 0u);
}

static const char short_loop[] =
    "func.func @f(%rows: tensor<3x8xf32> {tessera.name = \"rows\"}, %w: tensor<8xf32> "
    "{tessera.name "
    "= \"w\"}) -> (tensor<3x8xf32> {tessera.name = \"y\"}) attributes {tessera.entry = "
    "\"infer\"} {\n"
    "  %s:2 = \"tessera.scan\"(%w, %rows) ({\n"
    "  ^bb0(%a: tensor<8xf32>, %row: tensor<8xf32>):\n"
    "    %p = tessera.mul %a, %row : tensor<8xf32>, tensor<8xf32> -> tensor<8xf32>\n"
    "    tessera.yield %p, %p : tensor<8xf32>, tensor<8xf32>\n"
    "  }) {carried = 1 : i64} : (tensor<8xf32>, tensor<3x8xf32>) -> (tensor<8xf32>, "
    "tensor<3x8xf32>)\n"
    "  return %s#1 : tensor<3x8xf32>\n"
    "}\n";

Test(memory, loops_become_functions_or_end) {
    cr_assert_gt(guard_each(short_loop, ARENAS, tsr_pass_flatten), 0u);
    cr_assert_gt(guard_each(loops, ARENAS, tsr_pass_outline), 5u);
}

static const char gathered[] =
    "func.func @f(%x: tensor<3xf32> {tessera.name = \"x\"}, %y: tensor<5xf32> {tessera.name = "
    "\"y\"}) -> (tensor<8xf32> {tessera.name = \"z\"}) attributes {tessera.entry = \"infer\"} {\n"
    "  %z = \"tessera_sr.all_gather\"(%x, %y) {axis = \"data\"} : (tensor<3xf32>, tensor<5xf32>) "
    "-> tensor<8xf32>\n"
    "  return %z : tensor<8xf32>\n"
    "}\n";

Test(memory, collectives_are_local_or_not_at_all) {
    cr_assert_gt(guard_each(gathered, ARENAS, tsr_pass_local_collectives), 0u);
}

static const char lowered[] =
    "func.func @f(%x: tensor<4x4xf32> {tessera.name = \"x\"}) -> (tensor<4xf32> {tessera.name = "
    "\"y\"}) attributes {tessera.entry = \"infer\"} {\n"
    "  %k = tessera.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>\n"
    "  %a = tessera.matmul %x, %x : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>\n"
    "  %b = tessera.exp %a : tensor<4x4xf32>\n"
    "  %c = tessera.sum %b {axes = [0]} : tensor<4x4xf32> -> tensor<4xf32>\n"
    "  %y = tessera.mul %c, %k : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>\n"
    "  return %y : tensor<4xf32>\n"
    "}\n";

Test(memory, ops_are_fused_or_not_at_all) {
    cr_assert_gt(fail_each(lowered, ARENAS, tsr_pass_fuse), 10u);
}
