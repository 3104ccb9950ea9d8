/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts of values that virtual ranks have. A loop over the virtual ranks reads a part of a tensor,
 * and writes its next value, in place. Other parts are taken from sums and joined to values between
 * loops.
 */
#include "compiler/ir/op_rows.h"
#include "compiler/resilience/resilience.h"
#include "compiler/target/host/planner.h"

#include <string.h>

/* ---- collect ---- */

static bool is_tensor(MlirOperation op) {
    const tsr_op_row *row = tsr_op_row_find(op);
    return row && row->op_class == TSR_CLASS_SOURCE && tsr_op_has(op, "name");
}

bool tsr_planner_reads_parts_alone(MlirOperation source) {
    if (!is_tensor(source)) return false;
    MlirValue read = tsr_op_result(source, 0);
    if (!tsr_value_is_used(read)) return false;
    for (MlirOpOperand use = mlirValueGetFirstUse(read); !mlirOpOperandIsNull(use);
         use = mlirOpOperandGetNextUse(use))
        if (!tsr_op_is(mlirOpOperandGetOwner(use), TSR_SR_VRANK_PART)) return false;
    return true;
}

static TSR_RESULT collect_tensor_part(planner *p, MlirOperation op, MlirOperation source) {
    uint32_t tensor = 0;
    TRY(p->ctx, tsr_planner_find_tensor(p, tsr_op_string(source, "name"), &tensor));
    uint32_t *known = &p->part_value[tensor];
    if (*known == NONE)
        return tsr_planner_add_value(
            p, tsr_op_result(op, 0),
            (value){.buffer = {.space = TSR_SPACE_PART, .index = tensor}, .maker = NONE}, known);
    if (!tsr_value_map_set(&p->numbers, p->arena, tsr_op_result(op, 0), *known))
        FAIL(p->ctx, TSR_MEMORY, "no memory to plan @%s", p->entry->name);
    return TSR_SUCCESS;
}

/* Adds one command from the op's operand to its result. The command is between loops, or before the
 * op that reads a tensor in a loop. */
static TSR_RESULT collect_exchange(planner *p, MlirOperation op, launch_kind kind, tsr_space to) {
    launch *l = NULL;
    TRY(p->ctx, tsr_planner_add_launch(p, op, kind, NULL, &l));
    uint32_t from = tsr_value_map_get(&p->numbers, tsr_op_operand(op, 0));
    bool reads_tensor = from != NONE && p->values[from].buffer.space == TSR_SPACE_PART;
    if (from == NONE || (l->loop != NONE && !(kind == KIND_JOIN && reads_tensor)))
        FAIL(p->ctx, TSR_INTERNAL, "@%s: %s has no operand, or is in a loop", p->entry->name,
             tsr_op_name(op));
    p->values[from].first_end = p->launch_count;
    return tsr_planner_add_value(p, tsr_op_result(op, 0),
                                 (value){.buffer = {.space = to},
                                         .maker = p->launch_count - 1,
                                         .first_end = p->launch_count},
                                 NULL);
}

TSR_RESULT tsr_planner_collect_part(planner *p, MlirOperation op) {
    if (tsr_op_is(op, TSR_SR_VRANK_ALL_TO_ALL))
        return collect_exchange(p, op, KIND_SWAP, TSR_SPACE_VRANK);
    MlirOperation source = tsr_value_owner(tsr_op_operand(op, 0));
    if (!mlirOperationIsNull(source) && is_tensor(source))
        return collect_tensor_part(p, op, source);
    return collect_exchange(p, op, KIND_TAKE, TSR_SPACE_VRANK);
}

TSR_RESULT tsr_planner_collect_join(planner *p, MlirOperation op) {
    bool assembles = tsr_op_is(op, TSR_SR_VRANK_ASSEMBLE);
    return collect_exchange(p, op, assembles ? KIND_ASSEMBLE : KIND_JOIN, TSR_SPACE_WORKSPACE);
}

/* ---- bind ---- */

/* A sum that nothing else reads need not be whole anywhere. */
static tsr_collective_kind kind_of(const planner *p, const launch *l, const value *from) {
    if (l->kind == KIND_SWAP) return TSR_COLLECTIVE_ALL_TO_ALL;
    if (l->kind != KIND_TAKE) return TSR_COLLECTIVE_ALL_GATHER;
    MlirOpOperand use = mlirValueGetFirstUse(tsr_op_operand(l->call, 0));
    bool alone = mlirOpOperandIsNull(mlirOpOperandGetNextUse(use));
    bool sums = from->maker != NONE && p->launches[from->maker].kind == KIND_SUM;
    return sums && alone && !tsr_op_has(l->call, TSR_SR_SUMMED) ? TSR_COLLECTIVE_REDUCE_SCATTER
                                                                : TSR_COLLECTIVE_SLICE;
}

/* Does another entry, planned or not, have the whole tensor? */
static bool is_whole_elsewhere(const planner *p, const char *name) {
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(p->module)) {
        bool entry = tsr_op_is(func, TSR_FUNC_FUNC) || tsr_op_is(func, TSR_TARGET_FUNC);
        if (mlirOperationEqual(func, p->func) || !entry || !tsr_op_has_body(func)) continue;
        TSR_FOR_EACH_OP(op, tsr_op_body(func)) {
            bool assigns = tsr_op_is(op, TSR_GRAPH_ASSIGN);
            bool reads = is_tensor(op) && !tsr_planner_reads_parts_alone(op);
            const char *of = tsr_op_string(op, assigns ? "target" : "name");
            if (!assigns && !reads && !tsr_op_is(op, TSR_TARGET_TENSOR)) continue;
            if (of && strcmp(of, name) == 0) return true;
        }
    }
    return false;
}

/* Is the part gathered in the loop that writes it? */
static bool is_gathered_in(const planner *p, const loop *in, uint32_t part) {
    for (uint32_t i = in->begin; i < in->end; i++)
        if (p->launches[i].kind == KIND_JOIN &&
            tsr_value_map_get(&p->numbers, tsr_op_operand(p->launches[i].call, 0)) == part)
            return true;
    return false;
}

/* Virtual ranks write their parts one after another: no op may read the whole tensor from the
 * loop's begin on, nor its own part after the launch. */
static bool part_in_place(const planner *p, const value *part, uint32_t tensor) {
    if (part->maker == NONE || part->imported || part->maker < p->left || p->tensor_bound[tensor])
        return false;
    const launch *l = &p->launches[part->maker];
    if (l->kind != KIND_LAUNCH || l->loop == NONE) return false;
    if (p->last_fault != NONE && part->maker <= p->last_fault) return false;
    if (p->tensor_value[tensor] != NONE) {
        const value *whole = &p->values[p->tensor_value[tensor]];
        if (whole->read_at_end || whole->first_end > p->loops[l->loop].begin) return false;
    }
    if (p->part_value[tensor] == NONE) return true;
    uint32_t old = p->part_value[tensor];
    return p->values[old].first_end <= part->maker + 1 &&
           !is_gathered_in(p, &p->loops[l->loop], old) && tsr_planner_overwrites(p, l, part, old);
}

/* The number of tensors whose next value it is. */
static uint32_t count_assigns(const planner *p, uint32_t number) {
    uint32_t count = 0;
    TSR_FOR_EACH_OP(op, tsr_op_body(p->func)) {
        if (tsr_op_is(op, TSR_GRAPH_ASSIGN))
            count += tsr_value_map_get(&p->numbers, tsr_op_operand(op, 0)) == number;
    }
    return count;
}

void tsr_planner_bind_parts(planner *p) {
    for (uint32_t i = 0; i < p->launch_count; i++) {
        const launch *l = &p->launches[i];
        if (l->kind != KIND_TAKE) continue;
        value *from = &p->values[tsr_value_map_get(&p->numbers, tsr_op_operand(l->call, 0))];
        value *to = &p->values[tsr_value_map_get(&p->numbers, tsr_op_result(l->call, 0))];
        from->is_part = kind_of(p, l, from) == TSR_COLLECTIVE_REDUCE_SCATTER;
        if (from->buffer.space != TSR_SPACE_SUMS) continue;
        to->is_part = true; /* it may be read in the sum, which stays as long */
        if (from->first_end < to->first_end) from->first_end = to->first_end;
    }
    for (uint32_t i = 0; i < p->value_count; i++) {
        value *v = &p->values[i];
        if (v->maker == NONE || v->imported || v->next_of == NONE) continue;
        const launch *l = &p->launches[v->maker];
        if (l->kind != KIND_JOIN && l->kind != KIND_ASSEMBLE) continue;
        value *part = &p->values[tsr_value_map_get(&p->numbers, tsr_op_operand(l->call, 0))];
        if (!part_in_place(p, part, v->next_of)) continue;
        bool is_read = v->first_end > v->maker + 1 || v->output != NONE ||
                       count_assigns(p, i) > 1 ||
                       is_whole_elsewhere(p, p->config->tensors[v->next_of].name);
        v->unseen = l->kind == KIND_ASSEMBLE && !is_read;
        p->tensor_bound[v->next_of] = true;
        v->buffer.space = TSR_SPACE_TENSOR;
        part->buffer.space = TSR_SPACE_PART;
        v->buffer.index = part->buffer.index = v->next_of;
    }
}

/* ---- emit ---- */

void tsr_planner_emit_parts(const planner *p, tsr_builder *b, const launch *l,
                            const MlirValue *buffers) {
    uint32_t to = tsr_value_map_get(&p->numbers, tsr_op_result(l->call, 0));
    uint32_t from = tsr_value_map_get(&p->numbers, tsr_op_operand(l->call, 0));
    if (p->values[to].unseen) return;
    const MlirValue operands[] = {buffers[to], buffers[from]};
    const tsr_attr attrs[] = {
        {"kind", tsr_attr_make_string(b->context,
                                      tsr_collective_get(kind_of(p, l, &p->values[from]))->name)},
        {"axis", tsr_attr_make_string(b->context, "virtual_ranks")},
        {"ranks", tsr_attr_make_i64(b->context, (int64_t)p->config->virtual_ranks)}};
    b->location = mlirOperationGetLocation(l->call);
    tsr_build(b, &(tsr_op_desc){.name = "tessera_target.collective",
                                .operand_count = 2,
                                .operands = operands,
                                .attr_count = 3,
                                .attrs = attrs});
}
