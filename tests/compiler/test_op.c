/* SPDX-License-Identifier: Apache-2.0
 *
 * The numbers of ops: names and registered ops agree, in both directions and in every context.
 */
#include "compiler/ir/op.h"
#include "compiler/shim/shim.h"
#include "runtime/base/array.h"
#include "tests/compiler/fixture.h"

#include <pthread.h>

static fixture f;

static void open(void) { fixture_open(&f); }
static void close(void) { fixture_close(&f); }
TestSuite(op, .init = open, .fini = close);

static tsr_op find(const char *name) {
    for (int i = TSR_OP_NONE + 1; i < TSR_OP_COUNT; i++)
        if (strcmp(tsr_op_text((tsr_op)i), name) == 0) return (tsr_op)i;
    return TSR_OP_NONE;
}

Test(op, every_number_has_a_registered_name_of_its_own) {
    for (int i = TSR_OP_NONE + 1; i < TSR_OP_COUNT; i++) {
        const char *name = tsr_op_text((tsr_op)i);
        cr_assert(mlirContextIsRegisteredOperation(f.mlir, tsr_ref(name)), "%s", name);
        cr_assert_eq(find(name), i, "%s has two numbers", name);
        cr_assert_neq(tsr_op_dialect((tsr_op)i), TSR_DIALECT_NONE, "%s", name);
    }
    cr_assert_eq(tsr_op_dialect(TSR_OP_NONE), TSR_DIALECT_NONE);
}

/* The table that must have the op of this name; NONE: the op is MLIR's. */
static tsr_dialect table_of(const char *name) {
    static const struct {
        const char *prefix;
        tsr_dialect dialect;
    } rows[] = {{"tessera_sr.", TSR_DIALECT_SR},       {"tsched.", TSR_DIALECT_SCHED},
                {"tile.", TSR_DIALECT_TILE},           {"tessera_target.", TSR_DIALECT_TARGET},
                {"tessera.schedule.", TSR_DIALECT_SR}, {"tessera.resilience.", TSR_DIALECT_SR},
                {"tessera.system.", TSR_DIALECT_SR},   {"tessera.optimizer.", TSR_DIALECT_SR},
                {"tessera.target.", TSR_DIALECT_SR},   {"tessera.tile.", TSR_DIALECT_SR},
                {"tessera.effects.", TSR_DIALECT_SR},  {"tessera.", TSR_DIALECT_GRAPH}};
    for (size_t i = 0; i < TSR_COUNT(rows); i++)
        if (strncmp(name, rows[i].prefix, strlen(rows[i].prefix)) == 0) return rows[i].dialect;
    return TSR_DIALECT_NONE;
}

static void check_registered(MlirStringRef ref, void *user) {
    size_t *counts = user;
    char name[128];
    snprintf(name, sizeof name, "%.*s", (int)ref.length, ref.data);
    tsr_dialect dialect = table_of(name);
    counts[dialect]++;
    if (dialect == TSR_DIALECT_NONE) return;
    cr_assert_neq(find(name), TSR_OP_NONE, "%s is in no table", name);
    cr_assert_eq(tsr_op_dialect(find(name)), dialect, "%s is in the table of another", name);
}

Test(op, every_registered_op_of_ours_has_a_number) {
    size_t counts[TSR_DIALECT_VECTOR + 1] = {0};
    tsr_shim_op_names(f.mlir, check_registered, counts);
    for (int d = TSR_DIALECT_NONE; d <= TSR_DIALECT_TARGET; d++)
        cr_assert_gt(counts[d], 10, "only %zu ops of dialect %d", counts[d], d);
}

static MlirOperation make(MlirContext context, const char *name) {
    MlirOperationState state =
        mlirOperationStateGet(tsr_ref(name), mlirLocationUnknownGet(context));
    MlirRegion region = mlirRegionCreate();
    mlirOperationStateAddOwnedRegions(&state, 1, &region);
    return mlirOperationCreate(&state);
}

/* An op of every number is made in a context, without operands: nobody verifies it. */
static void check_numbers(MlirContext context) {
    for (int i = TSR_OP_NONE + 1; i < TSR_OP_COUNT; i++) {
        MlirOperation op = make(context, tsr_op_text((tsr_op)i));
        tsr_op is = tsr_op_of(op), other = (tsr_op)(i == 1 ? 2 : 1);
        bool same = tsr_op_is(op, (tsr_op)i), wrong = tsr_op_is(op, other);
        bool of = tsr_op_is_of(op, tsr_op_dialect((tsr_op)i));
        mlirOperationDestroy(op);
        cr_assert_eq(is, i, "%s is %d", tsr_op_text((tsr_op)i), is);
        cr_assert(same && of && !wrong, "%s", tsr_op_text((tsr_op)i));
    }
}

Test(op, ops_of_every_context_have_the_numbers) {
    fixture other;
    check_numbers(f.mlir);
    fixture_open(&other);
    check_numbers(other.mlir);
    fixture_close(&other);
    check_numbers(f.mlir);
}

static void *check_in_thread(void *unused) {
    fixture own;
    fixture_open(&own);
    check_numbers(own.mlir);
    fixture_close(&own);
    return unused;
}

Test(op, threads_have_the_numbers) {
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, check_in_thread, NULL), 0);
    for (int i = 0; i < THREADS; i++) cr_assert_eq(pthread_join(threads[i], NULL), 0);
}

Test(op, no_op_and_unknown_ops_have_none) {
    MlirOperation null = {NULL};
    cr_assert_eq(tsr_op_of(null), TSR_OP_NONE);
    cr_assert(!tsr_op_is(null, TSR_OP_NONE) && !tsr_op_is(null, TSR_FUNC_FUNC));
    mlirContextSetAllowUnregisteredDialects(f.mlir, true);
    /* Not registered; registered, and in no table. */
    static const char *const names[] = {"other.op", "tessera.no_such_op", "arith.ceildivsi"};
    for (size_t i = 0; i < TSR_COUNT(names); i++) {
        MlirOperation op = make(f.mlir, names[i]);
        cr_assert_eq(tsr_op_of(op), TSR_OP_NONE, "%s", names[i]);
        cr_assert(!tsr_op_is(op, TSR_GRAPH_ADD), "%s", names[i]);
        mlirOperationDestroy(op);
    }
    cr_assert(mlirContextIsRegisteredOperation(f.mlir, tsr_ref(names[2])));
    cr_assert(!mlirContextIsRegisteredOperation(f.mlir, tsr_ref(names[1])));
}
