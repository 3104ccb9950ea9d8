/* SPDX-License-Identifier: Apache-2.0
 *
 * Host programs, run on a model of memory: each slot has the identity of the value stored there; a
 * write erases everything that it overlaps. Every launch must find the values that the schedule
 * passes to it, and at the end every output and tensor must have its own value.
 */
#include "compiler/graph/graph.h"
#include "compiler/ir/attributes.h"
#include "compiler/ir/targets/target.h"
#include "compiler/schedule/config.h"
#include "compiler/schedule/schedule.h"
#include "compiler/target/host/host.h"
#include "compiler/tile/tile.h"
#include "runtime/base/io/io.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { VALUES_MAX = 4096, STALE = -1 };

typedef struct fixture {
    tsr_ctx ctx;
    tsr_arena arena;
    tsr_diag_list diags;
    MlirContext mlir;
    MlirModule module, lowered; /* Schedule IR, Target IR */
    tsr_config config;
    tsr_program program;
} fixture;

static void compile_text(fixture *f, const char *text) {
    cr_assert_eq(tsr_mlir_context_create(&f->ctx, &f->diags, &f->mlir).code, TSR_OK);
    tsr_result result =
        tsr_mlir_parse(&f->ctx, f->mlir, &f->diags, text, strlen(text), "test.mlir", &f->module);
    if (!result.code) result = tsr_graph_lower(&f->ctx, f->module, &f->diags, NULL);
    if (!result.code) result = tsr_schedule_lower(&f->ctx, f->module, &f->diags);
    if (!result.code) result = tsr_mlir_run_pass(&f->ctx, f->module, &f->diags, "tsched-pack");
    if (!result.code) result = tsr_module_config(&f->ctx, f->module, "test", &f->arena, &f->config);
    const tsr_target *target = NULL;
    if (!result.code) result = tsr_target_find(&f->ctx, "cpu:x86-64-v3", &target);
    if (!result.code) result = tsr_tile_lower(&f->ctx, f->module, target, &f->lowered);
    if (!result.code) result = tsr_host_lower(&f->ctx, f->lowered, &f->config, &f->arena);
    if (!result.code) result = tsr_mlir_verify(&f->ctx, f->lowered, &f->diags, "target");
    if (!result.code)
        result = tsr_host_program(&f->ctx, f->lowered, &f->config, &f->arena, &f->program);
    cr_assert_eq(result.code, TSR_OK, "%s\n%s", f->ctx.error.text, text);
    result = tsr_program_verify(&f->ctx, &f->program, &f->config, TSR_INTERNAL);
    cr_assert_eq(result.code, TSR_OK, "%s", f->ctx.error.text);
}

static void finish(fixture *f) {
    mlirModuleDestroy(f->module);
    mlirModuleDestroy(f->lowered);
    tsr_mlir_context_destroy(f->mlir);
    tsr_diag_finish(&f->diags);
    tsr_arena_finish(&f->arena);
}

/* ---- the model ---- */

typedef struct machine {
    const fixture *f;
    const tsr_program_entry *entry;
    int held[VALUES_MAX]; /* buffer -> identity of the value it holds */
    bool faulted_late;    /* a fault was possible after a tensor was written */
    bool wrote_tensor;
} machine;

static bool overlap(const tsr_program_buffer *a, const tsr_program_buffer *b) {
    if (a->space != b->space) return false;
    if (a->space != TSR_SPACE_WORKSPACE) return a->index == b->index;
    return a->offset_bytes < b->offset_bytes + tsr_program_buffer_size(b) &&
           b->offset_bytes < a->offset_bytes + tsr_program_buffer_size(a);
}

static void write(machine *m, uint32_t buffer, int identity) {
    const tsr_program_buffer *target = &m->entry->buffers[buffer];
    for (uint32_t i = 0; i < m->entry->buffer_count; i++) {
        const tsr_program_buffer *other = &m->entry->buffers[i];
        if (!overlap(target, other)) continue;
        bool exact = target->space != TSR_SPACE_WORKSPACE ||
                     (target->offset_bytes == other->offset_bytes &&
                      tsr_program_buffer_size(target) == tsr_program_buffer_size(other));
        m->held[i] = exact ? identity : STALE;
    }
    m->wrote_tensor |= target->space == TSR_SPACE_TENSOR;
}

static int tensor_index(const fixture *f, const char *name) {
    const tsr_config_tensor *tensor = tsr_config_find_tensor(&f->config, name);
    cr_assert_not_null(tensor, "no tensor '%s'", name);
    return (int)(tensor - f->config.tensors);
}

/* Each type of a hyper-parameter is an input of its own. */
static int identity_of_number(const char *key, tsr_dtype dtype) {
    int sum = 0;
    for (const char *at = key; *at; at++) sum = (sum * 31 + *at) % 10007;
    return 100000 + 16 * sum + (int)dtype;
}

static tsr_dtype type_of(MlirValue value) {
    tsr_type type = {0};
    cr_assert(tsr_value_type(value, &type));
    return type.dtype;
}

/* Identities: inputs 1000 + i, tensors' old values 2000 + i, results 10000 + 100 * launch + i,
 * hyper-parameters from 100000. */
static int identity_of(const fixture *f, MlirOperation func, MlirValue value) {
    MlirOperation owner = tsr_value_owner(value);
    if (mlirOperationIsNull(owner)) return 1000 + (int)mlirBlockArgumentGetArgNumber(value);
    if (tsr_op_is(owner, TSR_GRAPH_RESHAPE)) /* a view: no launch made it */
        return identity_of(f, func, tsr_op_operand(owner, 0));
    if (tsr_op_is(owner, TSR_GRAPH_STEP)) return 999;
    if (tsr_op_is(owner, TSR_GRAPH_HYPERPARAMETER))
        return identity_of_number(tsr_op_string(owner, "key"), type_of(value));
    if (tsr_op_is(owner, TSR_GRAPH_CONSTANT))
        return 2000 + tensor_index(f, tsr_op_string(owner, TSR_CONSTANT_NAME));
    if (!tsr_op_is(owner, TSR_SCHED_CALL))
        return 2000 + tensor_index(f, tsr_op_string(owner, "name"));
    int launch = 0;
    TSR_FOR_EACH_OP(op, tsr_op_body(func)) {
        if (mlirOperationEqual(op, owner)) break;
        launch += tsr_op_is(op, TSR_SCHED_CALL);
    }
    return 10000 + 100 * launch + (int)mlirOpResultGetResultNumber(value);
}

static void begin(machine *m, const tsr_config_entry *declared) {
    cr_assert_lt(m->entry->buffer_count, VALUES_MAX);
    for (uint32_t i = 0; i < m->entry->buffer_count; i++) {
        const tsr_program_buffer *buffer = &m->entry->buffers[i];
        m->held[i] = STALE;
        if (buffer->space == TSR_SPACE_TENSOR) m->held[i] = 2000 + (int)buffer->index;
        if (buffer->space != TSR_SPACE_INPUT) continue;
        const tsr_config_port *port = &declared->inputs[buffer->index];
        m->held[i] = port->source == TSR_PORT_STEP ? 999
                     : port->hyperparameter
                         ? identity_of_number(port->hyperparameter->name, port->dtype)
                         : 1000 + (int)buffer->index;
    }
}

static bool call_faults(const fixture *f, MlirOperation call) {
    MlirOperation group = tsr_module_find(f->module, tsr_op_string(call, "callee"));
    bool faults = false;
    TSR_FOR_EACH_OP(op, tsr_op_body(group)) {
        faults |=
            tsr_op_is(op, TSR_GRAPH_CROSS_ENTROPY) || tsr_op_is(op, TSR_GRAPH_CROSS_ENTROPY_GRAD);
    }
    return faults;
}

/* An operand that overlaps a result must be read element for element. */
static void check_overwrite(const machine *m, const tsr_program_command *command,
                            MlirOperation call) {
    MlirOperation group = tsr_module_find(m->f->module, tsr_op_string(call, "callee"));
    const char *kind = tsr_op_string(group, "kind");
    for (uint32_t in = 0; in < command->written_from; in++)
        for (uint32_t out = command->written_from; out < command->argument_count; out++) {
            const tsr_program_buffer *a = &m->entry->buffers[command->arguments[in]];
            const tsr_program_buffer *b = &m->entry->buffers[command->arguments[out]];
            if (!overlap(a, b)) continue;
            cr_assert(strcmp(kind, "map") == 0 || strcmp(kind, "matmul") == 0,
                      "a %s group overwrites its input", kind);
            cr_assert(tsr_shape_equal(&a->shape, &b->shape) && a->dtype == b->dtype &&
                      a->offset_bytes == b->offset_bytes);
            MlirValue argument = mlirBlockGetArgument(tsr_op_body(group), (intptr_t)in);
            for (MlirOpOperand use = mlirValueGetFirstUse(argument); !mlirOpOperandIsNull(use);
                 use = mlirOpOperandGetNextUse(use)) {
                MlirOperation user = mlirOpOperandGetOwner(use);
                cr_assert(!tsr_op_is(user, TSR_GRAPH_MATMUL) &&
                              !tsr_op_is(user, TSR_GRAPH_TRANSPOSE),
                          "%s overwrites what it reads as a whole", tsr_op_name(user));
            }
        }
}

static void run_launch(machine *m, MlirOperation func, MlirOperation call,
                       const tsr_program_command *command) {
    size_t inputs = tsr_op_operand_count(call);
    MlirOperation group = tsr_module_find(m->f->module, tsr_op_string(call, "callee"));
    bool packs = strcmp(tsr_op_string(group, "kind"), "pack") == 0;
    cr_assert_eq(command->opcode, packs ? TSR_OP_PREPARE : TSR_OP_LAUNCH);
    cr_assert_eq(command->written_from, inputs);
    cr_assert_str_eq(m->f->program.kernels[command->kernel], tsr_op_string(call, "callee"));
    for (size_t i = 0; i < inputs; i++)
        cr_assert_eq(m->held[command->arguments[i]],
                     identity_of(m->f, func, tsr_op_operand(call, i)),
                     "%s does not find its input %zu", tsr_op_string(call, "callee"), i);
    check_overwrite(m, command, call);
    if (call_faults(m->f, call) && m->wrote_tensor) m->faulted_late = true;
    for (size_t i = 0; i < tsr_op_result_count(call); i++)
        write(m, command->arguments[inputs + i], identity_of(m->f, func, tsr_op_result(call, i)));
    /* Results must not overlap. */
    for (size_t i = 0; i < tsr_op_result_count(call); i++)
        cr_assert_eq(m->held[command->arguments[inputs + i]],
                     identity_of(m->f, func, tsr_op_result(call, i)));
}

static int held_in(const machine *m, tsr_space space, uint32_t index) {
    for (uint32_t i = 0; i < m->entry->buffer_count; i++)
        if (m->entry->buffers[i].space == space && m->entry->buffers[i].index == index)
            return m->held[i];
    return space == TSR_SPACE_TENSOR ? 2000 + (int)index : STALE;
}

static void check_end(const machine *m, MlirOperation func) {
    int *next = calloc(m->f->config.tensor_count + 1, sizeof *next);
    for (size_t i = 0; i < m->f->config.tensor_count; i++) next[i] = 2000 + (int)i;
    TSR_FOR_EACH_OP(op, tsr_op_body(func)) {
        if (tsr_op_is(op, TSR_GRAPH_ASSIGN))
            next[tensor_index(m->f, tsr_op_string(op, "target"))] =
                identity_of(m->f, func, tsr_op_operand(op, 0));
        if (!tsr_op_is(op, TSR_FUNC_RETURN)) continue;
        for (size_t i = 0; i < tsr_op_operand_count(op); i++)
            cr_assert_eq(held_in(m, TSR_SPACE_OUTPUT, (uint32_t)i),
                         identity_of(m->f, func, tsr_op_operand(op, i)), "output %zu is wrong", i);
    }
    for (size_t i = 0; i < m->f->config.tensor_count; i++)
        cr_assert_eq(held_in(m, TSR_SPACE_TENSOR, (uint32_t)i), next[i], "tensor '%s' is wrong",
                     m->f->config.tensors[i].name);
    free(next);
    cr_assert_not(m->faulted_late, "a kernel can fault after a tensor was written");
}

static uint32_t run_entry(const fixture *f, uint32_t index) {
    static machine m;
    uint32_t at = 0, copies = 0;
    m = (machine){.f = f, .entry = &f->program.entries[index]};
    MlirOperation func = tsr_module_find(f->module, m.entry->name);
    begin(&m, &f->config.entries[index]);
    TSR_FOR_EACH_OP(op, tsr_op_body(func)) {
        if (tsr_op_is(op, TSR_SCHED_CALL)) run_launch(&m, func, op, &m.entry->commands[at++]);
    }
    for (; at < m.entry->command_count; at++, copies++) {
        const tsr_program_command *command = &m.entry->commands[at];
        cr_assert_eq(command->opcode, TSR_OP_COPY);
        cr_assert_neq(m.held[command->arguments[1]], STALE, "a copy of nothing");
        write(&m, command->arguments[0], m.held[command->arguments[1]]);
    }
    check_end(&m, func);
    return copies;
}

/* Compiles, and runs every entry on the model; returns the number of copies in the first entry. */
static uint32_t check_text(const char *text, uint64_t *out_workspace_bytes) {
    fixture f = {0};
    uint32_t copies = 0;
    compile_text(&f, text);
    for (uint32_t i = 0; i < f.program.entry_count; i++) {
        uint32_t count = run_entry(&f, i);
        if (i == 0) copies = count;
    }
    if (out_workspace_bytes) *out_workspace_bytes = f.program.entries[0].workspace_bytes;
    finish(&f);
    return copies;
}

#define TYPE "tensor<8x8xf32>"
#define OTHER "tensor<4x16xf32>"
#define PARAM(name)                                                                                \
    "%" name " = tessera.param \"" name "\" init = #tessera.constant<0.0> : " TYPE "\n"
#define BINARY(result, op, a, b)                                                                   \
    "%" result " = tessera." op " %" a ", %" b " : " TYPE ", " TYPE " -> " TYPE "\n"
#define ASSIGN(value, target) "tessera.assign %" value " to \"" target "\" : " TYPE "\n"
#define TRAIN(body)                                                                                \
    "func.func @f(%x: " TYPE " {tessera.data = \"x\"}) -> (" TYPE                                  \
    " {tessera.name = \"y\"}) attributes {tessera.entry = \"train\"} {\n" body "}\n"

Test(program, an_update_is_in_place) {
    uint64_t workspace = 1;
    cr_assert_eq(check_text(TRAIN(PARAM("w") BINARY("y", "matmul", "x", "w") BINARY(
                                "n", "sub", "w", "x") ASSIGN("n", "w") "return %y : " TYPE "\n"),
                            &workspace),
                 0);
    cr_assert_eq(workspace, 0);
}

Test(program, a_matmul_does_not_overwrite_its_operand) {
    cr_assert_eq(check_text(TRAIN(PARAM("w") BINARY("m", "matmul", "x", "w") ASSIGN("m", "w")
                                      BINARY("y", "sub", "x", "x") "return %y : " TYPE "\n"),
                            NULL),
                 1);
}

Test(program, the_old_value_that_is_returned_is_copied_first) {
    cr_assert_eq(check_text(TRAIN(PARAM("w") BINARY("n", "sub", "w", "x")
                                      ASSIGN("n", "w") "return %w : " TYPE "\n"),
                            NULL),
                 2);
}

Test(program, two_parameters_swap) {
    /* Two temporaries, two copies to the tensors, one of the input to the output. */
    cr_assert_eq(check_text(TRAIN(PARAM("v") PARAM("w") ASSIGN("v", "w")
                                      ASSIGN("w", "v") "return %x : " TYPE "\n"),
                            NULL),
                 5);
}

Test(program, one_value_for_two_tensors_and_an_output) {
    cr_assert_eq(check_text(TRAIN(PARAM("v") PARAM("w") BINARY("n", "sub", "w", "v")
                                      ASSIGN("n", "v") ASSIGN("n", "w") "return %n : " TYPE "\n"),
                            NULL),
                 2);
}

Test(program, an_assignment_of_itself_is_nothing) {
    cr_assert_eq(check_text(TRAIN(PARAM("w") BINARY("y", "sub", "w", "x")
                                      ASSIGN("w", "w") "return %y : " TYPE "\n"),
                            NULL),
                 0);
}

Test(program, one_value_returned_twice) {
    static const char text[] =
        "func.func @f(%x: " TYPE " {tessera.name = \"x\"}) -> (" TYPE
        " {tessera.name = \"a\"}, " TYPE " {tessera.name = \"b\"}, " TYPE
        " {tessera.name = \"c\"})\n"
        "    attributes {tessera.entry = \"infer\"} {\n" BINARY(
            "y", "sub", "x", "x") "return %y, %y, %x : " TYPE ", " TYPE ", " TYPE "\n}\n";
    cr_assert_eq(check_text(text, NULL), 2);
}

Test(program, the_step_is_an_input) {
    static const char text[] =
        "func.func @f(%x: tensor<8xf32> {tessera.data = \"step\"}) -> (tensor<i64> {tessera.name = "
        "\"y\"})\n    attributes {tessera.entry = \"train\"} {\n"
        "%w = tessera.param \"w\" init = #tessera.constant<0.0> : tensor<8xf32>\n"
        "%n = tessera.sub %w, %x : tensor<8xf32>, tensor<8xf32> -> tensor<8xf32>\n"
        "tessera.assign %n to \"w\" : tensor<8xf32>\n"
        "%s = tessera.step : tensor<i64>\n"
        "%y = tessera.add %s, %s : tensor<i64>, tensor<i64> -> tensor<i64>\n"
        "return %y : tensor<i64>\n}\n";
    fixture f = {0};
    compile_text(&f, text);
    cr_assert_eq(f.config.entries[0].input_count, 2);
    cr_assert_str_eq(f.config.entries[0].inputs[1].name, "step_");
    cr_assert_eq(f.config.entries[0].inputs[1].source, TSR_PORT_STEP);
    cr_assert_eq(f.config.entries[0].batch, 8);
    run_entry(&f, 0);
    finish(&f);
}

#define PRODUCTS(kind, name, rows, after)                                                          \
    "func.func @" name "(%x: tensor<" rows "x80xf32> {tessera.data = \"x_" name "\"}) -> "         \
    "(tensor<" rows "x96xf32> {tessera.name = \"y\"}) attributes {tessera.entry = \"" kind         \
    "\"} {\n%w = tessera.param \"w\" init = #tessera.normal<0.0, 1.0> : tensor<80x96xf32>\n"       \
    "%y = tessera.matmul %x, %w : tensor<" rows "x80xf32>, tensor<80x96xf32> -> tensor<" rows      \
    "x96xf32>\n" after "return %y : tensor<" rows "x96xf32>\n}\n"

/* A reshape between two kernels needs neither a launch nor memory; a reshape to a result of the
 * entry does. */
Test(program, a_reshape_between_kernels_is_a_view) {
    uint64_t workspace = 0;
    check_text(TRAIN(BINARY(
                   "a", "matmul", "x",
                   "x") "%r = tessera.reshape %a : " TYPE " -> " OTHER "\n"
                        "%s = tessera.matmul %r, %r "
                        "{transpose_a = true} : " OTHER ", " OTHER " -> tensor<16x16xf32>\n"
                        "%t = tessera.matmul %r, %s : " OTHER ", tensor<16x16xf32> -> " OTHER "\n"
                        "%y = tessera.reshape %t : " OTHER " -> " TYPE "\nreturn %y : " TYPE "\n"),
               &workspace);
    cr_assert_eq(workspace, (64 + 256 + 64) * sizeof(float));
}

/* The sum could overwrite %q, but the product next to it reads all of %q, as %r. */
Test(program, what_is_read_through_a_view_is_not_overwritten) {
    check_text(
        "func.func @f(%x: tensor<2x8xf32> {tessera.name = \"x\"}, %w: tensor<8x8xf32> "
        "{tessera.name = \"w\"}) -> (tensor<8x8xf32> {tessera.name = \"y\"}) attributes "
        "{tessera.entry = \"infer\"} {\n"
        "%q = tessera.matmul %x, %w : tensor<2x8xf32>, tensor<8x8xf32> -> tensor<2x8xf32>\n"
        "%r = tessera.reshape %q : tensor<2x8xf32> -> tensor<8x2xf32>\n"
        "%s = tessera.matmul %r, %r {transpose_a = true} : tensor<8x2xf32>, tensor<8x2xf32> -> "
        "tensor<2x2xf32>\n"
        "%m = tessera.matmul %s, %r {transpose_b = true} : tensor<2x2xf32>, tensor<8x2xf32> -> "
        "tensor<2x8xf32>\n"
        "%n = tessera.add %m, %q : tensor<2x8xf32>, tensor<2x8xf32> -> tensor<2x8xf32>\n"
        "%y = tessera.matmul %n, %n {transpose_a = true} : tensor<2x8xf32>, tensor<2x8xf32> -> "
        "tensor<8x8xf32>\n"
        "return %y : tensor<8x8xf32>\n}\n",
        NULL);
}

static uint32_t count_prepares(const tsr_program_entry *entry, const tsr_program_buffer **out) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < entry->command_count; i++) {
        if (entry->commands[i].opcode != TSR_OP_PREPARE) continue;
        *out = &entry->buffers[entry->commands[i].arguments[1]];
        count++;
    }
    return count;
}

/* Entries that only read a weight share its prepacked form, whatever their batch; an entry that
 * assigns the weight reads it unpacked. */
Test(program, entries_share_what_is_prepared) {
    static const char text[] = PRODUCTS("infer", "a", "4", "") PRODUCTS("infer", "b", "32", "")
        PRODUCTS("train", "t", "32",
                 "%h = tessera.add %w, %w : tensor<80x96xf32>, tensor<80x96xf32> -> "
                 "tensor<80x96xf32>\ntessera.assign %h to \"w\" : tensor<80x96xf32>\n");
    const tsr_program_buffer *one = NULL, *two = NULL, *none = NULL;
    fixture f = {0};
    compile_text(&f, text);
    for (uint32_t i = 0; i < 3; i++) run_entry(&f, i);
    cr_assert_eq(count_prepares(&f.program.entries[0], &one), 1);
    cr_assert_eq(count_prepares(&f.program.entries[1], &two), 1);
    cr_assert_eq(count_prepares(&f.program.entries[2], &none), 0);
    cr_assert_eq(one->index, two->index);
    cr_assert_eq(tsr_program_prepacked_count(&f.program), 1);
    finish(&f);
}

Test(program, examples) {
    tsr_ctx ctx = {0};
    tsr_arena arena = {0};
    void *text = NULL;
    size_t size = 0;
    cr_assert_eq(
        tsr_io_read_file(&ctx, EXAMPLES "/digits/digits.mlir", 1 << 20, &arena, &text, &size).code,
        TSR_OK);
    fixture f = {0};
    compile_text(&f, text);
    cr_assert_eq(f.config.entry_count, 3);
    for (uint32_t i = 0; i < 3; i++) run_entry(&f, i);
    /* Twelve weights and biases and their moments: the gradients of the six biases end in a
     * reduction. */
    const tsr_program_entry *train = &f.program.entries[2];
    cr_assert_str_eq(train->name, "train");
    cr_assert_lt(train->workspace_bytes, 128 * 1024);
    finish(&f);
    tsr_arena_finish(&arena);
}

/* Straight-line programs of random ops over five parameters, with random assignments. */
static void random_program(unsigned seed, tsr_buffer *out) {
    static const char *const ops[] = {"add", "mul", "sub", "matmul", "matmul", "max"};
    srand(seed);
    tsr_buffer_text(out,
                    "func.func @f(%v0: " TYPE " {tessera.data = \"x\"}, %l: tensor<8xi64> "
                    "{tessera.data = \"l\"}) -> (" TYPE " {tessera.name = \"a\"}, tensor<8xf32> "
                    "{tessera.name = \"b\"}) attributes {tessera.entry = \"train\"} {\n");
    for (int i = 1; i <= 5; i++)
        tsr_buffer_printf(
            out, "%%v%d = tessera.param \"p%d\" init = #tessera.constant<0.0> : " TYPE "\n", i, i);
    /* Every tensor is read: a program may not assign one that it never reads. */
    for (int i = 6; i <= 9; i++)
        tsr_buffer_printf(out,
                          "%%v%d = tessera.add %%v%d, %%v%d : " TYPE ", " TYPE " -> " TYPE "\n", i,
                          i == 6 ? 1 : i - 1, i - 4);
    int count = 10, loss_at = 10 + rand() % 15, ops_count = 26 + rand() % 10;
    for (; count < ops_count; count++) {
        if (count == loss_at)
            tsr_buffer_printf(out,
                              "%%loss = tessera.cross_entropy %%v%d, %%l : " TYPE
                              ", tensor<8xi64> -> tensor<8xf32>\n",
                              rand() % count);
        if (rand() % 5 == 0)
            tsr_buffer_printf(out,
                              "%%s%d = tessera.reshape %%v%d : " TYPE " -> " OTHER "\n"
                              "%%t%d = tessera.sub %%s%d, %%s%d : " OTHER ", " OTHER " -> " OTHER
                              "\n%%v%d = tessera.reshape %%t%d : " OTHER " -> " TYPE "\n",
                              count, rand() % count, count, count, count, count, count);
        else if (rand() % 6 == 0)
            tsr_buffer_printf(out,
                              "%%v%d = tessera.transpose %%v%d {permutation = [1, 0]} : " TYPE
                              " -> " TYPE "\n",
                              count, rand() % count);
        else
            tsr_buffer_printf(
                out, "%%v%d = tessera.%s %%v%d, %%v%d : " TYPE ", " TYPE " -> " TYPE "\n", count,
                ops[rand() % 6], rand() % count, rand() % 2 ? count - 1 : rand() % count);
    }
    for (int i = 1; i <= 5; i++)
        if (rand() % 4)
            tsr_buffer_printf(out, "tessera.assign %%v%d to \"p%d\" : " TYPE "\n", rand() % count,
                              i);
    tsr_buffer_printf(out, "%%y = tessera.sub %%v9, %%v%d : " TYPE ", " TYPE " -> " TYPE "\n",
                      rand() % count);
    tsr_buffer_text(out, "return %y, %loss : " TYPE ", tensor<8xf32>\n}\n");
}

Test(program, random_programs) {
    for (unsigned seed = 1; seed <= 300; seed++) {
        tsr_buffer text = {0};
        random_program(seed, &text);
        check_text(text.bytes, NULL);
        tsr_buffer_finish(&text);
    }
}
