/* SPDX-License-Identifier: Apache-2.0
 *
 * The verifier runs after every change, and no more often. The test is linked with a counter around
 * the rule of the ops.
 */
#include "compiler/shim/shim.h"
#include "runtime/base/array.h"
#include "tests/compiler/fixture.h"

static fixture f;
static size_t verified;

bool __real_tsr_graph_verify_op(MlirOperation op);
bool __wrap_tsr_graph_verify_op(MlirOperation op);
bool __wrap_tsr_graph_verify_op(MlirOperation op) {
    verified++;
    return __real_tsr_graph_verify_op(op);
}

static const char program[] =
    "func.func @f(%a: tensor<2xf32>, %b: tensor<3xf32>) -> tensor<2xf32> {\n"
    "  %0 = tessera.neg %a : tensor<2xf32>\n"
    "  %1 = tessera.sum %b {axes = [0]} : tensor<3xf32> -> tensor<f32>\n"
    "  %2 = tessera.add %0, %1 : tensor<2xf32>, tensor<f32> -> tensor<2xf32>\n"
    "  return %2 : tensor<2xf32>\n"
    "}\n";
enum { OPS = 3 };

static MlirOperation func(MlirModule module) {
    return mlirBlockGetFirstOperation(mlirModuleGetBody(module));
}
static MlirOperation first(MlirModule module) {
    return mlirBlockGetFirstOperation(tsr_op_body(func(module)));
}

static bool idle(MlirModule module) {
    (void)module;
    return true;
}
static bool mark(MlirModule module) {
    tsr_op_set(first(module), "test.mark", tsr_attr_make_unit(f.mlir));
    return true;
}
static bool unmark(MlirModule module) {
    mlirOperationRemoveAttributeByName(first(module), tsr_ref("test.mark"));
    return true;
}
static bool spoil(MlirModule module) {
    mlirOperationSetOperand(first(module), 0, mlirBlockGetArgument(tsr_op_body(func(module)), 1));
    return true;
}

static void open(void) {
    static bool registered;
    fixture_open(&f);
    cr_assert_eq(fixture_parse(&f, program).code, TSR_OK);
    if (!registered) {
        tsr_shim_register_pass(tsr_ref("test-idle"), tsr_ref(""), idle);
        tsr_shim_register_pass(tsr_ref("test-mark"), tsr_ref(""), mark);
        tsr_shim_register_pass(tsr_ref("test-unmark"), tsr_ref(""), unmark);
        tsr_shim_register_pass(tsr_ref("test-spoil"), tsr_ref(""), spoil);
    }
    registered = true;
    verified = 0;
}
static void close(void) { fixture_close(&f); }
TestSuite(pass, .init = open, .fini = close);

static tsr_code run(const char *passes) {
    return tsr_mlir_run_pass(&f.ctx, f.module, &f.list, passes).code;
}

Test(pass, verified_after_each_change) {
    static const struct {
        const char *passes;
        size_t times;
    } cases[] = {
        {"test-idle", 0}, /* verified by the parser */
        {"test-idle,test-idle,test-idle", 0},
        {"test-mark,test-idle,test-mark", 1},
        {"test-unmark,test-mark,test-idle,test-unmark", 3},
        {"test-idle,canonicalize,test-idle", 1},
        {"test-idle,func.func(canonicalize),test-idle", 1},
        {"test-idle", 0},
    };
    for (size_t i = 0; i < TSR_COUNT(cases); i++) {
        verified = 0;
        cr_assert_eq(run(cases[i].passes), TSR_OK, "%s", cases[i].passes);
        cr_assert_eq(verified, cases[i].times * OPS, "%s: %zu, not %zu times %d", cases[i].passes,
                     verified, cases[i].times, OPS);
    }
}

Test(pass, what_was_spoilt_is_refused) {
    static const char *const cases[] = {"test-spoil", "test-idle,test-spoil", "cse,test-spoil",
                                        "test-spoil,test-idle", "test-idle,test-spoil,test-idle"};
    for (size_t i = 0; i < TSR_COUNT(cases); i++) {
        cr_assert_eq(run(cases[i]), TSR_COMPILE, "%s", cases[i]);
        close();
        open();
    }
}

/* The module is damaged before the first pass, which does not change it. */
Test(pass, what_was_spoilt_outside_is_refused) {
    static const char *const cases[] = {"test-idle", "cse,test-idle", "test-idle,test-idle"};
    for (size_t i = 0; i < TSR_COUNT(cases); i++) {
        cr_assert_eq(run("test-idle"), TSR_OK);
        spoil(f.module);
        cr_assert_eq(run(cases[i]), TSR_COMPILE, "%s", cases[i]);
        cr_assert_eq(run(cases[i]), TSR_COMPILE, "%s, again", cases[i]);
        close();
        open();
    }
}

static size_t names_seen;
static void note_name(void *user, const char *pass, MlirModule module) {
    const char *const *names = user;
    cr_assert_str_eq(pass, names[names_seen++]);
    cr_assert(mlirModuleEqual(module, f.module));
}

Test(pass, each_is_told_when_it_ended) {
    static const char *names[] = {"test-idle", "cse", "test-mark"};
    const tsr_pass_options options = {.after_pass = note_name, .user = names};
    names_seen = 0;
    cr_assert_eq(tsr_mlir_run_passes(&f.ctx, f.module, &f.list,
                                     "test-idle,func.func(canonicalize),cse,test-mark", &options)
                     .code,
                 TSR_OK);
    cr_assert_eq(names_seen, 3);
}

/* ---- fingerprints ---------------------------------------------------------------------------- */

static void set_attribute(void) { mark(f.module); }
static void set_property(void) {
    MlirOperation sum = mlirOperationGetNextInBlock(first(f.module));
    tsr_op_set(sum, "axes", tsr_attr_make_i64s(f.mlir, 0, NULL));
}
static void set_operand(void) { spoil(f.module); }
static void set_location(void) {
    mlirOperationSetLocation(first(f.module),
                             mlirLocationFileLineColGet(f.mlir, tsr_ref("elsewhere"), 1, 1));
}
static void set_type(void) {
    mlirValueSetType(tsr_op_result(first(f.module), 0),
                     mlirTypeParseGet(f.mlir, tsr_ref("tensor<?xf32>")));
}
static void set_argument_type(void) {
    mlirValueSetType(mlirBlockGetArgument(tsr_op_body(func(f.module)), 1),
                     mlirTypeParseGet(f.mlir, tsr_ref("tensor<?xf32>")));
}
static void add_argument(void) {
    mlirBlockAddArgument(tsr_op_body(func(f.module)), mlirF32TypeGet(f.mlir),
                         mlirLocationUnknownGet(f.mlir));
}
static void change_order(void) {
    MlirOperation neg = first(f.module);
    mlirOperationMoveAfter(neg, mlirOperationGetNextInBlock(neg));
}
static void remove_op(void) {
    MlirOperation neg = first(f.module);
    mlirValueReplaceAllUsesOfWith(tsr_op_result(neg, 0), tsr_op_operand(neg, 0));
    mlirOperationDestroy(neg);
}
static void add_op(void) {
    MlirOperation neg = first(f.module);
    mlirBlockInsertOwnedOperationBefore(tsr_op_body(func(f.module)), neg, mlirOperationClone(neg));
}
static void add_block(void) {
    mlirRegionAppendOwnedBlock(mlirOperationGetRegion(func(f.module), 0),
                               mlirBlockCreate(0, NULL, NULL));
}

Test(pass, a_fingerprint_tells_every_change) {
    static const struct {
        const char *what;
        void (*change)(void);
    } cases[] = {{"attribute", set_attribute}, {"property", set_property},
                 {"operand", set_operand},     {"location", set_location},
                 {"type", set_type},           {"type of an argument", set_argument_type},
                 {"argument", add_argument},   {"order", change_order},
                 {"op removed", remove_op},    {"op added", add_op},
                 {"block", add_block}};
    for (size_t i = 0; i < TSR_COUNT(cases); i++) {
        MlirOperation module = mlirModuleGetOperation(f.module);
        uint64_t before = tsr_shim_fingerprint(module);
        cr_assert_eq(tsr_shim_fingerprint(module), before);
        cases[i].change();
        cr_assert_neq(tsr_shim_fingerprint(module), before, "%s", cases[i].what);
        close();
        open();
    }
}
