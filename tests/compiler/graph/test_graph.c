/* SPDX-License-Identifier: Apache-2.0
 *
 * Lowering as a call, and the descriptions of tensors and entries in programs.
 */
#include "compiler/graph/graph.h"
#include "runtime/base/array.h"
#include "tests/compiler/fixture.h"

#include <stdio.h>

static fixture f;

static void open(void) { fixture_open(&f); }
static void close(void) { fixture_close(&f); }
TestSuite(graph, .init = open, .fini = close);

static const char program[] =
    "func.func @train(%x: tensor<4x3xf32> {tessera.data = \"rows\"}, %s: tensor<f32> "
    "{tessera.name = \"scale\"}) -> (tensor<f32> {tessera.name = \"loss\"}) attributes "
    "{tessera.entry = \"train\"} {\n"
    "  %w = tessera.param \"w\" init = #tessera.uniform<-0.5, 0.25> : tensor<3xf32>\n"
    "  %b = tessera.param \"b\" data = dense<[1.0, 2.0, 3.0]> : tensor<3xf32>\n"
    "  %0 = tessera.mul %x, %w : tensor<4x3xf32>, tensor<3xf32> -> tensor<4x3xf32>\n"
    "  %1 = tessera.add %0, %b : tensor<4x3xf32>, tensor<3xf32> -> tensor<4x3xf32>\n"
    "  %2 = tessera.mul %1, %s : tensor<4x3xf32>, tensor<f32> -> tensor<4x3xf32>\n"
    "  %loss = tessera.mean %2 {axes = [0, 1]} : tensor<4x3xf32> -> tensor<f32>\n"
    "  tessera.minimize %loss {optimizer = #tessera.adamw<lr = 0.1, beta1 = 0.9, beta2 = 0.99, "
    "eps = 1.0e-8, weight_decay = 0.5>} : tensor<f32>\n"
    "  return %loss : tensor<f32>\n"
    "}\n"
    "func.func @rows(%x: tensor<4x3xf32> {tessera.name = \"x\"}) -> (tensor<4xi64> {tessera.name = "
    "\"best\"}) attributes {tessera.entry = \"infer\", tessera.rows_independent} {\n"
    "  %0 = tessera.argmax %x {axis = 1 : i64} : tensor<4x3xf32> -> tensor<4xi64>\n"
    "  return %0 : tensor<4xi64>\n"
    "}\n";

static char seen[1024];
static void note_pass(void *user, const char *pass, MlirModule module) {
    cr_assert_eq(user, seen);
    cr_assert(mlirOperationVerify(mlirModuleGetOperation(module)));
    snprintf(seen + strlen(seen), sizeof seen - strlen(seen), "%s%s", seen[0] ? "," : "", pass);
}

static void lower(void) {
    const tsr_pass_options options = {.after_pass = note_pass, .user = seen};
    cr_assert_eq(fixture_parse(&f, program).code, TSR_OK, "%s", f.ctx.error.text);
    seen[0] = '\0';
    cr_assert_eq(tsr_graph_lower(&f.ctx, f.module, &f.list, &options).code, TSR_OK, "%s",
                 f.ctx.error.text);
}

Test(graph, lower_runs_every_pass) {
    char names[sizeof seen] = "";
    size_t used = 0, depth = 0;
    for (const char *at = TSR_GRAPH_PIPELINE; *at && used + 1 < sizeof names; at++) {
        depth += *at == '{';
        if (!depth) names[used++] = *at;
        depth -= *at == '}';
    }
    lower();
    cr_assert_str_eq(seen, names);
}

Test(graph, tensors) {
    static const struct {
        const char *name, *of, *kind;
        tsr_tensor_role role;
        tsr_init_kind init;
        double a, b;
    } expected[] = {
        {"b", NULL, NULL, TSR_ROLE_PARAM, TSR_INIT_DATA, 0, 0},
        {"b.adam_m", "b", "adam_m", TSR_ROLE_STATE, TSR_INIT_CONSTANT, 0, 0},
        {"b.adam_v", "b", "adam_v", TSR_ROLE_STATE, TSR_INIT_CONSTANT, 0, 0},
        {"w", NULL, NULL, TSR_ROLE_PARAM, TSR_INIT_UNIFORM, -0.5, 0.25},
        {"w.adam_m", "w", "adam_m", TSR_ROLE_STATE, TSR_INIT_CONSTANT, 0, 0},
        {"w.adam_v", "w", "adam_v", TSR_ROLE_STATE, TSR_INIT_CONSTANT, 0, 0},
    };
    tsr_graph_tensor *tensors;
    size_t count;
    lower();
    cr_assert_eq(tsr_graph_tensors(&f.ctx, f.module, &f.arena, &tensors, &count).code, TSR_OK);
    cr_assert_eq(count, TSR_COUNT(expected));
    for (size_t i = 0; i < count; i++) {
        cr_assert_str_eq(tensors[i].name, expected[i].name);
        cr_assert_eq(tensors[i].role, expected[i].role);
        cr_assert_eq(tensors[i].init, expected[i].init);
        cr_assert_eq(tensors[i].init_a, expected[i].a);
        cr_assert_eq(tensors[i].init_b, expected[i].b);
        cr_assert_eq(tensors[i].type.dtype, TSR_DTYPE_F32);
        cr_assert(tensors[i].type.shape.rank == 1 && tensors[i].type.shape.dims[0] == 3);
        if (!expected[i].of) continue;
        cr_assert_str_eq(tensors[i].of, expected[i].of);
        cr_assert_str_eq(tensors[i].kind, expected[i].kind);
    }
    tsr_type type;
    void *data;
    cr_assert(tsr_attr_elements(tensors[0].data, &f.arena, &type, &data));
    cr_assert_arr_eq(data, ((float[]){1, 2, 3}), 12);
}

Test(graph, entries) {
    tsr_graph_entry *entries;
    size_t count;
    lower();
    cr_assert_eq(tsr_graph_entries(&f.ctx, f.module, &f.arena, &entries, &count).code, TSR_OK);
    cr_assert_eq(count, 2);
    cr_assert_str_eq(entries[0].name, "train");
    cr_assert_eq(entries[0].kind, TSR_ENTRY_TRAIN);
    cr_assert_not(entries[0].rows_independent);
    cr_assert(entries[0].input_count == 2 && entries[0].output_count == 1);
    cr_assert_str_eq(entries[0].inputs[0].name, "rows");
    cr_assert_eq(entries[0].inputs[0].source, TSR_PORT_DATA);
    cr_assert_str_eq(entries[0].inputs[1].name, "scale");
    cr_assert_eq(entries[0].inputs[1].source, TSR_PORT_ARGUMENT);
    cr_assert_eq(entries[0].inputs[1].type.shape.rank, 0);
    cr_assert_str_eq(entries[0].outputs[0].name, "loss");
    cr_assert_str_eq(entries[1].name, "rows");
    cr_assert_eq(entries[1].kind, TSR_ENTRY_INFER);
    cr_assert(entries[1].rows_independent);
    cr_assert_eq(entries[1].outputs[0].type.dtype, TSR_DTYPE_I64);
}

Test(graph, lower_reports_once) {
    cr_assert_eq(fixture_parse(&f, "func.func @f() { return }").code, TSR_OK);
    cr_assert_eq(tsr_graph_lower(&f.ctx, f.module, &f.list, NULL).code, TSR_COMPILE);
    cr_assert_eq(f.list.error_count, 1);
    cr_assert_eq(f.list.first->number, TSR_DIAG_ENTRY);
    cr_assert(strstr(f.ctx.error.text, "no function with attribute tessera.entry"));
}

Test(graph, predicates) {
    cr_assert_eq(fixture_parse(&f, "func.func @f(%x: tensor<f32>) {\n"
                                   "  %0 = tessera.compare ge %x, %x : tensor<f32>, tensor<f32> -> "
                                   "tensor<i1>\n  return\n}")
                     .code,
                 TSR_OK);
    MlirOperation func = tsr_module_find(f.module, "f");
    tsr_predicate predicate;
    cr_assert(tsr_graph_predicate(mlirBlockGetFirstOperation(tsr_op_body(func)), &predicate));
    cr_assert_eq(predicate, TSR_PREDICATE_GE);
    cr_assert_not(tsr_graph_predicate(func, &predicate));
}
