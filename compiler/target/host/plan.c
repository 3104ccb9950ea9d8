/* SPDX-License-Identifier: Apache-2.0
 *
 * An entry -> tessera_target.func. Outline: collect (values, their makers and readers) · bind
 * (tensor, output or workspace) · assign (slots of the workspace) · emit (buffers, launches with
 * the marks of regions between them, then copies).
 */
#include "compiler/schedule/memory/plan.h"

#include "compiler/graph/graph.h"
#include "compiler/ir/attributes.h"
#include "compiler/ir/op_rows.h"
#include "compiler/ir/value_map.h"
#include "compiler/resilience/resilience.h"
#include "compiler/schedule/schedule.h"
#include "compiler/target/host/planner.h"
#include "compiler/target/host/vranks.h"
#include "compiler/target/target.h"
#include "compiler/tile/attributes.h"
#include "manifests/program.h"

#include <inttypes.h>
#include <string.h>

/* ---- collect ---- */

tsr_result tsr_planner_add_value(planner *p, MlirValue mlir, value item, uint32_t *out_number) {
    tsr_type type;
    if (!tsr_value_type(mlir, &type) || !tsr_type_is_static(&type))
        FAIL(p->ctx, TSR_INTERNAL, "@%s holds a value without static type", p->entry->name);
    TSR_ASSERT(p->value_count < p->value_capacity);
    item.buffer.dtype = type.dtype;
    item.buffer.shape = type.shape;
    item.buffer.name = "";
    item.location = p->at;
    item.next_of = item.output = item.plan_index = item.view_of = item.later = NONE;
    p->values[p->value_count] = item;
    if (!tsr_value_map_set(&p->numbers, p->arena, mlir, p->value_count))
        FAIL(p->ctx, TSR_MEMORY, "no memory to plan @%s", p->entry->name);
    if (out_number) *out_number = p->value_count;
    p->value_count++;
    return TSR_SUCCESS;
}

tsr_result tsr_planner_find_tensor(const planner *p, const char *name, uint32_t *out_index) {
    const tsr_config_tensor *tensor = name ? tsr_config_find_tensor(p->config, name) : NULL;
    if (!tensor)
        FAIL(p->ctx, TSR_COMPILE, "@%s uses tensor '%s', which is not in the config",
             p->entry->name, name ? name : "");
    *out_index = (uint32_t)(tensor - p->config->tensors);
    return TSR_SUCCESS;
}

static TSR_RESULT collect_tensor(planner *p, MlirOperation op, const char *name) {
    uint32_t tensor = 0, number = 0;
    TRY(p->ctx, tsr_planner_find_tensor(p, name, &tensor));
    if (p->tensor_value[tensor] != NONE) {
        /* Read twice: one value. */
        if (!tsr_value_map_set(&p->numbers, p->arena, tsr_op_result(op, 0),
                               p->tensor_value[tensor]))
            FAIL(p->ctx, TSR_MEMORY, "no memory to plan @%s", p->entry->name);
        return TSR_SUCCESS;
    }
    TRY(p->ctx, tsr_planner_add_value(
                    p, tsr_op_result(op, 0),
                    (value){.buffer = {.space = TSR_SPACE_TENSOR, .index = tensor}, .maker = NONE},
                    &number));
    p->tensor_value[tensor] = number;
    return TSR_SUCCESS;
}

tsr_result tsr_planner_find(planner *p, MlirValue mlir, value **out_value) {
    uint32_t number = tsr_value_map_get(&p->numbers, mlir);
    if (number == NONE) FAIL(p->ctx, TSR_INTERNAL, "@%s: unknown value", p->entry->name);
    *out_value = &p->values[number];
    return TSR_SUCCESS;
}

/* The buffer that a kernel prepacks. This buffer is the same in all entries. */
static TSR_RESULT find_prepacked(planner *p, const launch *l, tsr_program_buffer *out_buffer) {
    value *from = NULL;
    tsr_prepacked_list *list = p->prepacked;
    if (tsr_op_operand_count(l->call) != 1 || tsr_op_result_count(l->call) != 1)
        FAIL(p->ctx, TSR_INTERNAL, "@%s: '%s' prepacks more or less than one buffer",
             p->entry->name, tsr_op_symbol(l->kernel));
    TRY(p->ctx, tsr_planner_find(p, tsr_op_operand(l->call, 0), &from));
    if (from->buffer.space != TSR_SPACE_TENSOR)
        FAIL(p->ctx, TSR_INTERNAL, "@%s: '%s' prepacks a value that is not a tensor",
             p->entry->name, tsr_op_symbol(l->kernel));
    uint32_t index = 0;
    while (index < list->count && (!mlirOperationEqual(list->items[index].kernel, l->kernel) ||
                                   list->items[index].tensor != from->buffer.index))
        index++;
    TSR_ASSERT(index < list->capacity);
    if (index == list->count)
        list->items[list->count++] = (tsr_prepacked_item){l->kernel, from->buffer.index};
    *out_buffer = (tsr_program_buffer){.space = TSR_SPACE_PREPACKED, .index = index};
    return TSR_SUCCESS;
}

/* Adds the next launch. The launches of a loop are consecutive. */
tsr_result tsr_planner_add_launch(planner *p, MlirOperation op, launch_kind kind,
                                  const char *callee, launch **out_launch) {
    launch *l = &p->launches[p->launch_count++];
    int64_t number = 0;
    *l = (launch){.kind = kind, .call = op, .loop = NONE};
    if (callee) l->kernel = tsr_module_find(p->module, callee);
    if ((kind == KIND_LAUNCH || kind == KIND_SUM) && !tsr_op_is(l->kernel, TSR_TARGET_KERNEL))
        FAIL(p->ctx, TSR_INTERNAL, "@%s calls '%s', which is not a kernel", p->entry->name,
             callee ? callee : "");
    *out_launch = l;
    if (!tsr_op_i64(op, TSR_VRANK_LOOP, &number)) return TSR_SUCCESS;
    l->loop = (uint32_t)number;
    if (l->loop == p->loop_count) p->loops[p->loop_count++] = (loop){.begin = p->launch_count - 1};
    TSR_ASSERT(l->loop + 1 == p->loop_count);
    p->loops[l->loop].end = p->launch_count;
    return TSR_SUCCESS;
}

/* Rows of an input. */
static TSR_RESULT collect_rows(planner *p, MlirOperation op) {
    MlirValue argument = tsr_op_operand(op, 0);
    for (intptr_t i = 0; i < mlirBlockGetNumArguments(tsr_op_body(p->func)); i++)
        if (mlirValueEqual(mlirBlockGetArgument(tsr_op_body(p->func), i), argument))
            return tsr_planner_add_value(
                p, tsr_op_result(op, 0),
                (value){.buffer = {.space = TSR_SPACE_INPUT, .index = (uint32_t)i}, .maker = NONE},
                NULL);
    FAIL(p->ctx, TSR_INTERNAL, "@%s: %s of a value that is not an input", p->entry->name,
         tsr_op_name(op));
}

static TSR_RESULT collect_collective(planner *p, MlirOperation op) {
    bool sums = tsr_op_is(op, TSR_SR_VRANK_SUM);
    value *operand = NULL;
    launch *l = NULL;
    TRY(p->ctx, tsr_planner_add_launch(p, op, sums ? KIND_SUM : KIND_GATHER,
                                       sums ? tsr_op_string(op, "combine") : NULL, &l));
    if (l->loop == NONE)
        FAIL(p->ctx, TSR_INTERNAL, "@%s: %s outside of a loop", p->entry->name, tsr_op_name(op));
    TRY(p->ctx, tsr_planner_find(p, tsr_op_operand(op, 0), &operand));
    operand->first_end = p->launch_count;
    return tsr_planner_add_value(
        p, tsr_op_result(op, 0),
        (value){.buffer = {.space = sums ? TSR_SPACE_SUMS : TSR_SPACE_WORKSPACE},
                .maker = p->launch_count - 1,
                .first_end = p->launch_count},
        NULL);
}

/* The result is the operand. */
static TSR_RESULT collect_same(planner *p, MlirOperation op, size_t result, size_t operand) {
    uint32_t number = operand < tsr_op_operand_count(op)
                          ? tsr_value_map_get(&p->numbers, tsr_op_operand(op, operand))
                          : NONE;
    if (number == NONE) FAIL(p->ctx, TSR_INTERNAL, "@%s: unknown value", p->entry->name);
    if (!tsr_value_map_set(&p->numbers, p->arena, tsr_op_result(op, result), number))
        FAIL(p->ctx, TSR_MEMORY, "no memory to plan @%s", p->entry->name);
    return TSR_SUCCESS;
}

/* The pitch of the kernel's argument number `index`; outputs follow inputs. */
static TSR_RESULT read_pitch(const planner *p, const launch *l, size_t index, int64_t *out_pitch) {
    MlirType type = mlirTypeAttrGetValue(tsr_op_attr(l->kernel, "function_type"));
    size_t inputs = (size_t)mlirFunctionTypeGetNumInputs(type);
    *out_pitch = 0;
    if (index >= inputs + (size_t)mlirFunctionTypeGetNumResults(type)) return TSR_SUCCESS;
    MlirType buffer = index < inputs ? mlirFunctionTypeGetInput(type, (intptr_t)index)
                                     : mlirFunctionTypeGetResult(type, (intptr_t)(index - inputs));
    if (!mlirTypeIsAMemRef(buffer) || tsr_buffer_pitch(buffer, out_pitch)) return TSR_SUCCESS;
    FAIL(p->ctx, TSR_COMPILE, "argument %zu of kernel '%s' is neither dense nor has a pitch", index,
         tsr_op_symbol(l->kernel));
}

/* Checks that the kernel reads rows with the pitch of the value. */
static TSR_RESULT check_pitch(const planner *p, const launch *l, size_t index, const value *v) {
    int64_t pitch = 0;
    TRY(p->ctx, read_pitch(p, l, index, &pitch));
    if (pitch == v->pitch) return TSR_SUCCESS;
    FAIL(p->ctx, TSR_COMPILE,
         "@%s: argument %zu of kernel '%s' expects pitch %" PRId64
         ", but its buffer has pitch %" PRId64,
         p->entry->name, index, tsr_op_symbol(l->kernel), pitch, v->pitch);
}

/* Only kernels support a pitch. */
static TSR_RESULT check_dense(planner *p, MlirOperation op) {
    for (size_t i = 0; i < tsr_op_operand_count(op); i++) {
        uint32_t number = tsr_value_map_get(&p->numbers, tsr_op_operand(op, i));
        if (number != NONE && p->values[number].pitch)
            FAIL(p->ctx, TSR_COMPILE,
                 "@%s: %s reads a buffer with pitch %" PRId64 "; expected a dense one",
                 p->entry->name, tsr_op_name(op), p->values[number].pitch);
    }
    return TSR_SUCCESS;
}

/* Element `index` of the operands and results of a call; 0 if the call has no open dim. */
static uint64_t read_times(MlirOperation call, size_t index) {
    int64_t times[TSR_PROGRAM_ARGUMENTS_MAX];
    size_t count = 0;
    bool read = tsr_op_i64s(call, TSR_OPEN_TIMES_NAME, TSR_PROGRAM_ARGUMENTS_MAX, times, &count);
    return read && index < count ? (uint64_t)times[index] : 0;
}

static TSR_RESULT collect_call(planner *p, MlirOperation call) {
    const char *callee = tsr_op_string(call, "callee");
    launch *l = NULL;
    TRY(p->ctx, tsr_planner_add_launch(p, call, KIND_LAUNCH, callee ? callee : "", &l));
    uint32_t index = p->launch_count - 1;
    size_t arguments = tsr_op_operand_count(call) + tsr_op_result_count(call);
    if (arguments > TSR_PROGRAM_ARGUMENTS_MAX)
        FAIL(p->ctx, TSR_COMPILE, "kernel '%s' has %zu arguments; at most %d are possible", callee,
             arguments, TSR_PROGRAM_ARGUMENTS_MAX);
    if (tsr_op_has(l->kernel, "faults")) p->last_fault = index;
    for (size_t i = 0; i < tsr_op_operand_count(call); i++) {
        value *operand = NULL;
        TRY(p->ctx, tsr_planner_find(p, tsr_op_operand(call, i), &operand));
        TRY(p->ctx, check_pitch(p, l, i, operand));
        operand->first_end = index + 1;
    }
    tsr_program_buffer buffer = {.space = TSR_SPACE_WORKSPACE};
    int64_t over = 0;
    if (tsr_op_i64(call, TSR_OVER_NAME, &over)) return collect_same(p, call, 0, (size_t)over);
    if (tsr_op_has(l->kernel, "prepacks")) TRY(p->ctx, find_prepacked(p, l, &buffer));
    for (size_t i = 0; i < tsr_op_result_count(call); i++) {
        value made = {.buffer = buffer, .maker = index, .first_end = index + 1};
        made.times = read_times(call, tsr_op_operand_count(call) + i);
        TRY(p->ctx, read_pitch(p, l, tsr_op_operand_count(call) + i, &made.pitch));
        TRY(p->ctx, tsr_planner_add_value(p, tsr_op_result(call, i), made, NULL));
    }
    return TSR_SUCCESS;
}

/* The results of the op are its operands, or a token. */
static TSR_RESULT collect_barrier(planner *p, MlirOperation op) {
    for (size_t i = 0; i < tsr_op_result_count(op); i++) {
        if (tsr_planner_is_token(tsr_op_result(op, i))) continue;
        TRY(p->ctx, collect_same(p, op, i, i));
    }
    return TSR_SUCCESS;
}

/* The view keeps the rows together. */
static uint64_t view_times(const planner *p, MlirOperation op, const value *root) {
    tsr_type to;
    int64_t times = 0;
    if (tsr_op_i64(op, TSR_OPEN_TIMES_NAME, &times)) return (uint64_t)times;
    if (!root->times || !p->entry->open.high || !tsr_value_type(tsr_op_result(op, 0), &to))
        return 0;
    return to.shape.dims[0] / p->entry->open.high;
}

/* The result has the slot of its operand. */
static TSR_RESULT collect_view(planner *p, MlirOperation op) {
    uint32_t root = tsr_value_map_get(&p->numbers, tsr_op_operand(op, 0)), number = 0;
    if (root == NONE || p->values[root].maker == NONE || p->values[root].imported)
        FAIL(p->ctx, TSR_INTERNAL, "@%s: a view of a value that no kernel computed",
             p->entry->name);
    if (p->values[root].view_of != NONE) root = p->values[root].view_of;
    const tsr_shape *from = &p->values[root].buffer.shape;
    tsr_type to;
    if (p->values[root].pitch && (!tsr_value_type(tsr_op_result(op, 0), &to) || to.shape.rank < 2 ||
                                  to.shape.dims[to.shape.rank - 1] != from->dims[from->rank - 1]))
        FAIL(p->ctx, TSR_COMPILE, "@%s: a view changes the rows of a buffer with pitch %" PRId64,
             p->entry->name, p->values[root].pitch);
    TRY(p->ctx, tsr_planner_add_value(p, tsr_op_result(op, 0),
                                      (value){.buffer = {.space = TSR_SPACE_WORKSPACE},
                                              .pitch = p->values[root].pitch,
                                              .times = view_times(p, op, &p->values[root]),
                                              .maker = p->values[root].maker},
                                      &number));
    p->values[number].view_of = root;
    p->values[root].viewed = true;
    return TSR_SUCCESS;
}

tsr_result tsr_planner_collect_block(planner *p, MlirBlock block) {
    TSR_FOR_EACH_OP(op, block) {
        const tsr_op_row *row = tsr_op_row_find(op);
        p->at = mlirOperationGetLocation(op);
        if (!tsr_op_is(op, TSR_SCHED_CALL) && !tsr_op_is_view(op)) TRY(p->ctx, check_dense(p, op));
        if (tsr_op_is(op, TSR_SCHED_CALL))
            TRY(p->ctx, collect_call(p, op));
        else if (tsr_planner_is_mark(op))
            TRY(p->ctx, tsr_planner_collect_mark(p, op));
        else if (tsr_planner_is_filled(op))
            TRY(p->ctx, tsr_planner_collect_filled(p, op));
        else if (tsr_op_is(op, TSR_SCHED_DIM))
            TRY(p->ctx, tsr_planner_add_value(
                            p, tsr_op_result(op, 0),
                            (value){.buffer = {.space = TSR_SPACE_SIZE}, .maker = NONE}, NULL));
        else if (tsr_op_is(op, TSR_SR_VRANK_ROWS))
            TRY(p->ctx, collect_rows(p, op));
        else if (tsr_op_is(op, TSR_SR_VRANK))
            TRY(p->ctx,
                tsr_planner_add_value(
                    p, tsr_op_result(op, 0),
                    (value){.buffer = {.space = TSR_SPACE_VRANK_NUMBER}, .maker = NONE}, NULL));
        else if (row && row->op_class == TSR_CLASS_COLLECTIVE)
            TRY(p->ctx, collect_collective(p, op));
        else if (row && row->op_class == TSR_CLASS_TAKE)
            TRY(p->ctx, tsr_planner_collect_part(p, op));
        else if (row && row->op_class == TSR_CLASS_JOIN)
            TRY(p->ctx, tsr_planner_collect_join(p, op));
        else if (tsr_planner_reads_parts_alone(op))
            continue;
        else if (row && row->op_class == TSR_CLASS_SOURCE)
            TRY(p->ctx, collect_tensor(p, op, tsr_op_string(op, "name")));
        else if (row && row->op_class == TSR_CLASS_CONSTANT)
            TRY(p->ctx, collect_tensor(p, op, tsr_op_string(op, TSR_CONSTANT_NAME)));
        else if (row && row->op_class == TSR_CLASS_LOOP)
            TRY(p->ctx, tsr_planner_collect_control(p, op));
        else if (row && row->op_class == TSR_CLASS_BARRIER)
            TRY(p->ctx, collect_barrier(p, op));
        else if (tsr_op_is_view(op))
            TRY(p->ctx, collect_view(p, op));
        else if (!tsr_op_is(op, TSR_GRAPH_ASSIGN) && !tsr_op_is(op, TSR_FUNC_RETURN))
            FAIL(p->ctx, TSR_INTERNAL, "@%s: %s is left after scheduling", p->entry->name,
                 tsr_op_name(op));
    }
    return TSR_SUCCESS;
}

static TSR_RESULT collect(planner *p) {
    MlirBlock block = tsr_op_body(p->func);
    p->at = mlirOperationGetLocation(p->func);
    for (intptr_t i = 0; i < mlirBlockGetNumArguments(block); i++)
        TRY(p->ctx, tsr_planner_collect_input(p, i));
    TRY(p->ctx, tsr_planner_collect_block(p, block));
    if (p->range_count && (tsr_planner_has_regions(p) || p->loop_count))
        FAIL(p->ctx, TSR_COMPILE, "@%s has both loops and %s; expected one of them", p->entry->name,
             tsr_planner_has_regions(p) ? "regions of resilience" : "virtual ranks");
    return TSR_SUCCESS;
}

/* A value that is read through a view lives as long as the view. */
static void share_lives(planner *p) {
    for (uint32_t i = 0; i < p->value_count; i++) {
        value *v = &p->values[i], *root = v->view_of == NONE ? v : &p->values[v->view_of];
        if (root->first_end < v->first_end) root->first_end = v->first_end;
    }
}

/* ---- bind ---- */

/* Are input and output of one segment, where the kernel has segments? */
static bool is_one_segment(const planner *p, const launch *l, const value *result, size_t operand) {
    size_t outputs = tsr_op_result_count(l->call), index = 0;
    tsr_segments segments;
    if (!tsr_segments_read(l->kernel, tsr_op_operand_count(l->call), outputs, &segments))
        return true;
    while (index < outputs &&
           &p->values[tsr_value_map_get(&p->numbers, tsr_op_result(l->call, index))] != result)
        index++;
    return segments.inputs && operand / segments.inputs == index / segments.outputs;
}

/* May the launch write its `result` over its operand `operand`? Both have the same type. */
static bool overwrites_operand(const planner *p, const launch *l, const value *result,
                               size_t operand) {
    int64_t inputs[TSR_PROGRAM_ARGUMENTS_MAX];
    size_t count = 0;
    if (!is_one_segment(p, l, result, operand)) return false;
    tsr_op_i64s(l->kernel, "in_place", TSR_PROGRAM_ARGUMENTS_MAX, inputs, &count);
    for (size_t i = 0; i < count; i++)
        if (inputs[i] == (int64_t)operand) return true;
    return false;
}

bool tsr_planner_overwrites(const planner *p, const launch *l, const value *result,
                            uint32_t number) {
    for (size_t i = 0; i < tsr_op_operand_count(l->call); i++) {
        uint32_t operand = tsr_value_map_get(&p->numbers, tsr_op_operand(l->call, i));
        if (p->values[operand].view_of == number ||
            (operand == number && !overwrites_operand(p, l, result, i)))
            return false;
    }
    return true;
}

/* Do both have the same elements at the same positions? */
static bool have_same_layout(const value *a, const value *b) {
    return a->buffer.dtype == b->buffer.dtype && a->pitch == b->pitch && a->times == b->times &&
           tsr_shape_equal(&a->buffer.shape, &b->buffer.shape);
}

static bool in_place(const planner *p, const value *v) {
    if (v->maker == NONE || v->imported || p->tensor_bound[v->next_of]) return false;
    if (v->maker < p->left || p->launches[v->maker].kind != KIND_LAUNCH) return false;
    if (p->last_fault != NONE && v->maker <= p->last_fault) return false;
    if (p->tensor_value[v->next_of] == NONE) return true;
    uint32_t number = p->tensor_value[v->next_of];
    const value *old = &p->values[number];
    return !old->read_at_end && old->first_end <= v->maker + 1 && have_same_layout(old, v) &&
           tsr_planner_overwrites(p, &p->launches[v->maker], v, number);
}

static TSR_RESULT copy_add(planner *p, uint32_t to, uint32_t from) {
    TSR_ASSERT(to != from);
    p->copies[p->copy_count++] = (end_copy){.to = to, .from = from};
    p->values[from].read_at_end = true;
    return TSR_SUCCESS;
}

uint32_t tsr_planner_add_buffer(planner *p, tsr_space space, uint32_t index, const value *like) {
    TSR_ASSERT(p->value_count < p->value_capacity);
    p->values[p->value_count] = (value){.buffer = {.space = space,
                                                   .index = index,
                                                   .dtype = like->buffer.dtype,
                                                   .shape = like->buffer.shape,
                                                   .name = ""},
                                        .times = like->times,
                                        .location = like->location,
                                        .maker = NONE,
                                        .next_of = NONE,
                                        .output = NONE,
                                        .plan_index = NONE,
                                        .view_of = NONE,
                                        .later = NONE};
    return p->value_count++;
}

/* Reads the returned and assigned values; sets the preferred slot of each. */
static TSR_RESULT read_sinks(planner *p) {
    TSR_FOR_EACH_OP(op, tsr_op_body(p->func)) {
        bool assign = tsr_op_is(op, TSR_GRAPH_ASSIGN);
        if (!assign && !tsr_op_is(op, TSR_FUNC_RETURN)) continue;
        for (size_t i = 0; i < tsr_op_operand_count(op); i++) {
            value *v = NULL;
            uint32_t tensor = NONE;
            TRY(p->ctx, tsr_planner_find(p, tsr_op_operand(op, i), &v));
            if (assign)
                TRY(p->ctx, tsr_planner_find_tensor(p, tsr_op_string(op, "target"), &tensor));
            bool itself = assign && p->tensor_value[tensor] != NONE &&
                          v == &p->values[p->tensor_value[tensor]];
            if (v->maker == NONE && !itself) v->read_at_end = true;
            if (assign && v->next_of == NONE) v->next_of = tensor;
            if (!assign && v->output == NONE) v->output = (uint32_t)i;
        }
    }
    return TSR_SUCCESS;
}

static void bind_values(planner *p) {
    for (uint32_t i = 0; i < p->value_count; i++) {
        value *v = &p->values[i];
        if (v->maker == NONE || (!v->imported && p->launches[v->maker].kind != KIND_LAUNCH))
            continue;
        if (v->viewed || v->view_of != NONE) continue;
        if (v->next_of != NONE && in_place(p, v)) {
            p->tensor_bound[v->next_of] = true;
            v->buffer.space = TSR_SPACE_TENSOR;
            v->buffer.index = v->next_of;
        } else if (v->output != NONE) {
            v->buffer.space = TSR_SPACE_OUTPUT;
            v->buffer.index = v->output;
        }
    }
}

static bool is_in(const value *v, tsr_space space, uint32_t index) {
    return v->buffer.space == space && v->buffer.index == index;
}

/* Copies after the last launch: outputs; old values of tensors that become others' next values, to
 * the workspace; next values to their tensors. In this order no copy reads a buffer that an earlier
 * copy has written. */
static TSR_RESULT plan_copies(planner *p) {
    end_copy *late = TSR_NEW(p->arena, end_copy, (size_t)p->value_capacity);
    uint32_t late_count = 0;
    if (!late) FAIL(p->ctx, TSR_MEMORY, "no memory to plan @%s", p->entry->name);
    TSR_FOR_EACH_OP(op, tsr_op_body(p->func)) {
        if (!tsr_op_is(op, TSR_FUNC_RETURN)) continue;
        for (uint32_t i = 0; i < tsr_op_operand_count(op); i++) {
            uint32_t from = tsr_value_map_get(&p->numbers, tsr_op_operand(op, i));
            if (is_in(&p->values[from], TSR_SPACE_OUTPUT, i)) continue;
            TRY(p->ctx,
                copy_add(p, tsr_planner_add_buffer(p, TSR_SPACE_OUTPUT, i, &p->values[from]),
                         from));
        }
    }
    TSR_FOR_EACH_OP(op, tsr_op_body(p->func)) {
        uint32_t tensor = NONE;
        if (!tsr_op_is(op, TSR_GRAPH_ASSIGN)) continue;
        TRY(p->ctx, tsr_planner_find_tensor(p, tsr_op_string(op, "target"), &tensor));
        uint32_t from = tsr_value_map_get(&p->numbers, tsr_op_operand(op, 0));
        if (is_in(&p->values[from], TSR_SPACE_TENSOR, tensor)) continue;
        if (p->values[from].maker == NONE && p->values[from].buffer.space == TSR_SPACE_TENSOR) {
            uint32_t temporary =
                tsr_planner_add_buffer(p, TSR_SPACE_WORKSPACE, 0, &p->values[from]);
            p->values[temporary].maker = p->values[temporary].first = p->launch_count;
            TRY(p->ctx, copy_add(p, temporary, from));
            from = temporary;
        }
        late[late_count++] =
            (end_copy){.to = tsr_planner_add_buffer(p, TSR_SPACE_TENSOR, tensor, &p->values[from]),
                       .from = from};
    }
    for (uint32_t i = 0; i < late_count; i++) TRY(p->ctx, copy_add(p, late[i].to, late[i].from));
    return TSR_SUCCESS;
}

/* ---- assign ---- */

/* Operands of the value's launch that it may overwrite, by their index in the workspace plan. A
 * value that is offloaded to host memory after the launch is still needed there. */
static TSR_RESULT find_replaceable(const planner *p, const value *v, tsr_plan_value *wanted) {
    uint32_t count = 0;
    if (v->maker >= p->launch_count || v->imported || p->launches[v->maker].kind != KIND_LAUNCH)
        return TSR_SUCCESS;
    const launch *l = &p->launches[v->maker];
    uint32_t *indices = TSR_NEW(p->arena, uint32_t, tsr_op_operand_count(l->call) + 1);
    if (!indices) FAIL(p->ctx, TSR_MEMORY, "no memory to plan @%s", p->entry->name);
    for (size_t i = 0; i < tsr_op_operand_count(l->call); i++) {
        uint32_t operand = tsr_value_map_get(&p->numbers, tsr_op_operand(l->call, i));
        const value *other = &p->values[tsr_planner_at(p, operand, v->maker)];
        if (other->plan_index == NONE || other->later != NONE || !have_same_layout(other, v))
            continue;
        if (tsr_planner_overwrites(p, l, v, operand)) indices[count++] = other->plan_index;
    }
    wanted->replace = indices;
    wanted->replace_count = count;
    return TSR_SUCCESS;
}

tsr_result tsr_planner_size(const planner *p, const value *v, uint64_t *out_bytes) {
    const tsr_shape stored = tsr_shape_with_pitch(&v->buffer.shape, v->pitch);
    if (tsr_shape_size(&stored, v->buffer.dtype, out_bytes)) return TSR_SUCCESS;
    FAIL(p->ctx, TSR_MEMORY, "@%s holds a value of more than 2^63 bytes", p->entry->name);
}

tsr_result tsr_planner_assign(planner *p, tsr_space space, bool is_part, uint64_t *bytes) {
    tsr_plan_value *wanted = TSR_NEW(p->arena, tsr_plan_value, (size_t)p->value_count + 1);
    tsr_workspace_plan plan;
    uint32_t count = 0;
    if (!wanted) FAIL(p->ctx, TSR_MEMORY, "no memory to plan @%s", p->entry->name);
    for (uint32_t i = 0; i < p->value_count; i++) {
        value *v = &p->values[i];
        bool wants = v->buffer.space == space && v->view_of == NONE && v->is_part == is_part;
        v->plan_index = wants ? count++ : NONE;
    }
    for (uint32_t i = 0; i < p->value_count; i++) {
        const value *v = &p->values[i];
        if (v->plan_index == NONE) continue;
        tsr_plan_value *slot = &wanted[v->plan_index];
        *slot = (tsr_plan_value){.first = v->first, .last = tsr_planner_last(p, v)};
        if (v->pitch) slot->align_bytes = TSR_PITCH_BYTES;
        if (space == TSR_SPACE_WORKSPACE) TRY(p->ctx, find_replaceable(p, v, slot));
        TRY(p->ctx, tsr_planner_size(p, v, &slot->size_bytes));
    }
    TRY(p->ctx, tsr_workspace_plan_build(p->ctx, wanted, count, p->arena, &plan));
    for (uint32_t i = 0; i < p->value_count; i++) {
        value *v = &p->values[i];
        if (v->buffer.space != space || v->is_part != is_part) continue;
        uint32_t root = v->view_of == NONE ? i : v->view_of;
        v->buffer.offset_bytes = *bytes + plan.offset_bytes[p->values[root].plan_index];
        v->replaced = plan.replaced[p->values[root].plan_index];
    }
    *bytes += plan.peak_bytes;
    return TSR_SUCCESS;
}

/* ---- emit ---- */

/* The op that declares a buffer of each space, and its attribute for the offset. */
static const struct {
    const char *op, *attr;
} allocations[] = {
    [TSR_SPACE_TENSOR] = {"tessera_target.tensor", "name"},
    [TSR_SPACE_INPUT] = {"tessera_target.input", "index"},
    [TSR_SPACE_OUTPUT] = {"tessera_target.output", "index"},
    [TSR_SPACE_WORKSPACE] = {"tessera_target.alloc", "offset"},
    [TSR_SPACE_HOST] = {"tessera_target.host_alloc", "offset"},
    [TSR_SPACE_PREPACKED] = {"tessera_target.prepacked", "index"},
    [TSR_SPACE_PART] = {"tessera_target.tensor_part", "name"},
    [TSR_SPACE_VRANK] = {"tessera_target.vrank_alloc", "offset"},
    [TSR_SPACE_SUMS] = {"tessera_target.sum_alloc", "offset"},
    [TSR_SPACE_VRANK_NUMBER] = {"tessera_target.vrank_number", NULL},
    [TSR_SPACE_SIZE] = {"tessera_target.size", "index"},
};

static MlirValue emit_buffer(const planner *p, tsr_builder *b, const value *v) {
    const tsr_program_buffer *buffer = &v->buffer;
    bool placed = buffer->space == TSR_SPACE_WORKSPACE || buffer->space == TSR_SPACE_HOST ||
                  buffer->space == TSR_SPACE_VRANK || buffer->space == TSR_SPACE_SUMS;
    MlirAttribute where =
        buffer->space == TSR_SPACE_TENSOR || buffer->space == TSR_SPACE_PART
            ? tsr_attr_make_string(b->context, p->config->tensors[buffer->index].name)
            : tsr_attr_make_i64(b->context,
                                (int64_t)(placed ? buffer->offset_bytes : buffer->index));
    tsr_attr attrs[] = {{allocations[buffer->space].attr, where}, {0}, {0}};
    if (v->times)
        attrs[1] = (tsr_attr){TSR_OPEN_ROWS_NAME, tsr_attr_make_i64(b->context, (int64_t)v->times)};
    const tsr_type type = {.dtype = buffer->dtype, .shape = buffer->shape};
    b->location = v->location;
    return tsr_build_value(b, allocations[buffer->space].op, NULL, 0,
                           tsr_target_buffer_type(b->context, &type, v->pitch), attrs);
}

static void emit_collective(const planner *p, tsr_builder *b, const launch *l,
                            const MlirValue *buffers) {
    bool sums = l->kind == KIND_SUM;
    const MlirValue operands[] = {
        buffers[tsr_value_map_get(&p->numbers, tsr_op_result(l->call, 0))],
        buffers[tsr_value_map_get(&p->numbers, tsr_op_operand(l->call, 0))]};
    b->location = mlirOperationGetLocation(l->call);
    const tsr_attr kernel = {"kernel",
                             sums ? tsr_attr_make_symbol(b->context, tsr_op_symbol(l->kernel))
                                  : mlirAttributeGetNull()};
    tsr_build(
        b, &(tsr_op_desc){.name = sums ? "tessera_target.vrank_sum" : "tessera_target.vrank_gather",
                          .operand_count = 2,
                          .operands = operands,
                          .attr_count = sums,
                          .attrs = &kernel});
}

static void emit_loop(tsr_builder *b, const loop *begun) {
    const tsr_attr count = {"commands", tsr_attr_make_i64(b->context, begun->end - begun->begin)};
    b->location = mlirLocationUnknownGet(b->context);
    tsr_build(
        b, &(tsr_op_desc){.name = "tessera_target.each_vrank", .attr_count = 1, .attrs = &count});
}

static void emit_launch(const planner *p, tsr_builder *b, const launch *l, const MlirValue *buffers,
                        MlirValue *arguments) {
    size_t inputs = tsr_op_operand_count(l->call), outputs = tsr_op_result_count(l->call);
    const int32_t segments[] = {(int32_t)inputs, (int32_t)outputs};
    for (size_t i = 0; i < inputs + outputs; i++) {
        MlirValue mlir =
            i < inputs ? tsr_op_operand(l->call, i) : tsr_op_result(l->call, i - inputs);
        uint32_t number = tsr_value_map_get(&p->numbers, mlir);
        arguments[i] = buffers[tsr_planner_at(p, number, (uint32_t)(l - p->launches))];
    }
    const tsr_attr attrs[] = {
        {"kernel", tsr_attr_make_symbol(b->context, tsr_op_symbol(l->kernel))},
        {"operandSegmentSizes", mlirDenseI32ArrayGet(b->context, 2, segments)}};
    b->location = mlirOperationGetLocation(l->call);
    tsr_build(b, &(tsr_op_desc){.name = "tessera_target.launch",
                                .operand_count = inputs + outputs,
                                .operands = arguments,
                                .attr_count = 2,
                                .attrs = attrs});
}

/* Copies belong to no position in the source. */
static void emit_copies(const planner *p, tsr_builder *b, const MlirValue *buffers) {
    b->location = mlirLocationUnknownGet(b->context);
    for (uint32_t i = 0; i < p->copy_count; i++) {
        const MlirValue operands[] = {
            buffers[p->copies[i].to],
            buffers[tsr_planner_at(p, p->copies[i].from, p->launch_count)]};
        tsr_build(b, &(tsr_op_desc){
                         .name = "tessera_target.copy", .operand_count = 2, .operands = operands});
    }
}

static TSR_RESULT emit(planner *p, tsr_builder *at) {
    uint64_t workspace_bytes = 0, host_bytes = 0, vrank_bytes = 0, sum_bytes = 0;
    MlirValue arguments[TSR_PROGRAM_ARGUMENTS_MAX];
    TRY(p->ctx, tsr_planner_plan_workspace(p, &workspace_bytes));
    MlirValue *buffers = TSR_NEW(p->arena, MlirValue, (size_t)p->value_count + 1);
    if (!buffers) FAIL(p->ctx, TSR_MEMORY, "no memory to plan @%s", p->entry->name);
    TRY(p->ctx, tsr_planner_assign(p, TSR_SPACE_HOST, false, &host_bytes));
    TRY(p->ctx, tsr_planner_assign(p, TSR_SPACE_VRANK, false, &vrank_bytes));
    TRY(p->ctx, tsr_planner_assign(p, TSR_SPACE_VRANK, true, &vrank_bytes));
    TRY(p->ctx, tsr_planner_assign(p, TSR_SPACE_SUMS, false, &sum_bytes));
    TRY(p->ctx, tsr_planner_assign(p, TSR_SPACE_SUMS, true, &sum_bytes));
    MlirRegion body = mlirRegionCreate();
    MlirBlock block = mlirBlockCreate(0, NULL, NULL);
    mlirRegionAppendOwnedBlock(body, block);
    tsr_builder inside = tsr_builder_at_end(block, at->location);
    for (uint32_t i = 0; i < p->value_count; i++)
        if (!p->values[i].unseen) buffers[i] = emit_buffer(p, &inside, &p->values[i]);
    for (uint32_t i = 0, k = 0; i <= p->launch_count; i++) {
        const launch *l = &p->launches[i];
        for (; k < p->mark_count && p->marks[k].at == i; k++)
            tsr_planner_emit_mark(p, &inside, &p->marks[k], buffers, arguments);
        tsr_planner_emit_moves(p, &inside, i, buffers);
        if (i == p->launch_count) break;
        if (l->loop != NONE && p->loops[l->loop].begin == i) emit_loop(&inside, &p->loops[l->loop]);
        if (l->kind == KIND_CONTROL)
            tsr_planner_emit_control(&inside, l, buffers);
        else if (l->kind == KIND_LAUNCH)
            emit_launch(p, &inside, l, buffers, arguments);
        else if (l->kind >= KIND_TAKE)
            tsr_planner_emit_parts(p, &inside, l, buffers);
        else
            emit_collective(p, &inside, l, buffers);
    }
    emit_copies(p, &inside, buffers);
    const tsr_attr attrs[] = {
        {"sym_name", tsr_attr_make_string(at->context, p->entry->name)},
        {"workspace", tsr_attr_make_i64(at->context, (int64_t)workspace_bytes)},
        {"on_recovery", tsr_op_attr(p->func, TSR_SR_RECOVERY_HANDLER)}};
    tsr_build(at, &(tsr_op_desc){.name = "tessera_target.func",
                                 .attr_count = mlirAttributeIsNull(attrs[2].value) ? 2 : 3,
                                 .attrs = attrs,
                                 .region_count = 1,
                                 .regions = &body});
    return TSR_SUCCESS;
}

static TSR_RESULT planner_init(planner *p) {
    size_t values = 0, ops = 0;
    size_t tensors = p->config->tensor_count;
    MlirBlock block = tsr_op_body(p->func);
    TRY(p->ctx, tsr_planner_count(p, block, 0, &values, &ops));
    if (values > TSR_PROGRAM_BUFFERS_MAX)
        FAIL(p->ctx, TSR_COMPILE, "@%s has %zu values; at most %d can be planned", p->entry->name,
             values, TSR_PROGRAM_BUFFERS_MAX);
    p->value_capacity = (uint32_t)values;
    p->values = TSR_NEW(p->arena, value, values + 1);
    p->launches = TSR_NEW(p->arena, launch, ops + 1);
    p->loops = TSR_NEW(p->arena, loop, ops + 1);
    p->ranges = TSR_NEW(p->arena, loop, ops + 1);
    p->copies = TSR_NEW(p->arena, end_copy, values + 1);
    p->marks = TSR_NEW(p->arena, mark, ops + 1);
    p->tensor_value = TSR_NEW(p->arena, uint32_t, tensors + 1);
    p->part_value = TSR_NEW(p->arena, uint32_t, tensors + 1);
    p->tensor_bound = TSR_NEW(p->arena, bool, tensors + 1);
    p->last_fault = NONE;
    if (!p->values || !p->launches || !p->marks || !p->loops || !p->ranges || !p->copies ||
        !p->tensor_value || !p->part_value || !p->tensor_bound)
        FAIL(p->ctx, TSR_MEMORY, "no memory to plan @%s", p->entry->name);
    memset(p->tensor_value, 0xff, tensors * sizeof *p->tensor_value);
    memset(p->part_value, 0xff, tensors * sizeof *p->part_value);
    return TSR_SUCCESS;
}

static TSR_RESULT read_workspace_max(planner *p) {
    MlirOperation module = mlirModuleGetOperation(p->module);
    int64_t bytes = 0;
    if (!tsr_op_has(module, TSR_WORKSPACE_MAX_NAME)) return TSR_SUCCESS;
    if (!tsr_op_i64(module, TSR_WORKSPACE_MAX_NAME, &bytes))
        FAIL(p->ctx, TSR_COMPILE,
             "'" TSR_WORKSPACE_MAX_NAME
             "' of the module is not an i64; expected a number of bytes");
    if (bytes < 1)
        FAIL(p->ctx, TSR_COMPILE,
             "'" TSR_WORKSPACE_MAX_NAME "' of the module is %" PRId64
             "; expected a number of bytes, at least 1",
             bytes);
    p->workspace_max = (uint64_t)bytes;
    return TSR_SUCCESS;
}

tsr_result tsr_host_plan(tsr_ctx *ctx, MlirModule module, MlirOperation func,
                         const tsr_config *config, const tsr_config_entry *entry,
                         tsr_prepacked_list *prepacked, tsr_arena *arena) {
    planner p = {.ctx = ctx,
                 .arena = arena,
                 .config = config,
                 .entry = entry,
                 .module = module,
                 .prepacked = prepacked,
                 .func = func};
    tsr_builder at = tsr_builder_before(func);
    TRY(ctx, read_workspace_max(&p));
    TRY(ctx, tsr_host_order_vranks(ctx, func, arena));
    TRY(ctx, planner_init(&p));
    TRY(ctx, collect(&p));
    TRY(ctx, tsr_planner_record_boundaries(&p));
    tsr_planner_stretch_lives(&p);
    tsr_planner_stretch_ranges(&p);
    share_lives(&p);
    TRY(ctx, read_sinks(&p));
    tsr_planner_bind_parts(&p);
    bind_values(&p);
    TRY(ctx, plan_copies(&p));
    return emit(&p, &at);
}
