/* SPDX-License-Identifier: Apache-2.0
 *
 * Ops that order others and launch nothing: begin and end of a region, exports, imports, awaits;
 * and checks of numbers.
 */
#include "compiler/graph/graph.h"
#include "compiler/target/host/planner.h"

/* The op of Target IR that a mark becomes. */
static const tsr_op marks[TSR_OP_COUNT] = {
    [TSR_SR_ENTER] = TSR_TARGET_ENTER,         [TSR_SR_LEAVE] = TSR_TARGET_LEAVE,
    [TSR_SR_EXPORT_BEGIN] = TSR_TARGET_EXPORT, [TSR_SR_IMPORT_BEGIN] = TSR_TARGET_IMPORT,
    [TSR_ASYNC_AWAIT] = TSR_TARGET_AWAIT,      [TSR_GRAPH_VERIFY_NUMERICS] = TSR_TARGET_VERIFY,
};

bool tsr_planner_is_mark(MlirOperation op) { return marks[tsr_op_of(op)] != TSR_OP_NONE; }

bool tsr_planner_has_regions(const planner *p) {
    for (uint32_t i = 0; i < p->mark_count; i++)
        if (!tsr_op_is(p->marks[i].op, TSR_GRAPH_VERIFY_NUMERICS)) return true;
    return false;
}

/* The operands of a mark live until the launch after it, so that the launch before it cannot
 * overwrite them. */
tsr_result tsr_planner_collect_mark(planner *p, MlirOperation op) {
    uint32_t index = p->mark_count++;
    p->marks[index] = (mark){.op = op, .at = p->launch_count};
    for (size_t i = 0; i < tsr_op_operand_count(op); i++) {
        value *operand = NULL;
        if (tsr_planner_is_token(tsr_op_operand(op, i))) continue;
        TRY(p->ctx, tsr_planner_find(p, tsr_op_operand(op, i), &operand));
        operand->first_end = p->launch_count + 1;
    }
    for (size_t i = 0; i < tsr_op_result_count(op); i++) {
        if (tsr_planner_is_token(tsr_op_result(op, i))) {
            if (!tsr_value_map_set(&p->tokens, p->arena, tsr_op_result(op, i), index))
                FAIL(p->ctx, TSR_MEMORY, "no memory to plan @%s", p->entry->name);
            continue;
        }
        TRY(p->ctx, tsr_planner_add_value(p, tsr_op_result(op, i),
                                          (value){.buffer = {.space = TSR_SPACE_WORKSPACE},
                                                  .maker = p->launch_count,
                                                  .imported = true,
                                                  .first_end = p->launch_count + 1},
                                          NULL));
    }
    if (tsr_op_is(op, TSR_SR_LEAVE)) p->left = p->launch_count;
    return TSR_SUCCESS;
}

/* The launches between an enter and the leave that takes its token may run again: values that they
 * read and did not make themselves live until the end of the region. */
static TSR_RESULT record_boundary(planner *p, const mark *enter, const mark *leave) {
    for (uint32_t i = enter->at; i < leave->at; i++) {
        MlirOperation call = p->launches[i].call;
        for (size_t k = 0; k < tsr_op_operand_count(call); k++) {
            value *v = NULL;
            TRY(p->ctx, tsr_planner_find(p, tsr_op_operand(call, k), &v));
            bool inside = v->maker != NONE && !v->imported && v->maker >= enter->at;
            if (!inside && v->first_end < leave->at + 1) v->first_end = leave->at + 1;
        }
    }
    return TSR_SUCCESS;
}

static const mark *mark_of(const planner *p, MlirValue token) {
    uint32_t index = tsr_value_map_get(&p->tokens, token);
    return index == NONE ? NULL : &p->marks[index];
}

tsr_result tsr_planner_record_boundaries(planner *p) {
    for (uint32_t i = 0; i < p->mark_count; i++) {
        const mark *leave = &p->marks[i];
        if (!tsr_op_is(leave->op, TSR_SR_LEAVE)) continue;
        for (size_t k = 0; k < tsr_op_operand_count(leave->op); k++) {
            MlirValue token = tsr_op_operand(leave->op, k);
            const mark *enter = tsr_planner_is_token(token) ? mark_of(p, token) : NULL;
            if (enter && tsr_op_is(enter->op, TSR_SR_ENTER))
                TRY(p->ctx, record_boundary(p, enter, leave));
        }
    }
    return TSR_SUCCESS;
}

/* The op's token operands that marks give. The tokens of barriers are omitted: the order of
 * commands already implies them. */
static size_t marked_tokens(const planner *p, MlirOperation op, MlirValue *tokens) {
    size_t count = 0;
    for (size_t i = 0; i < tsr_op_operand_count(op); i++) {
        MlirValue token = tsr_op_operand(op, i);
        const mark *before = tsr_planner_is_token(token) ? mark_of(p, token) : NULL;
        if (before && count < TSR_PROGRAM_ARGUMENTS_MAX) tokens[count++] = before->token;
    }
    return count;
}

/* Buffers of the mark's tensors: `count` operands from `first` on, or results. */
static size_t marked_buffers(const planner *p, const mark *m, bool results, size_t first,
                             size_t count, const MlirValue *buffers, MlirValue *out) {
    for (size_t i = 0; i < count; i++)
        out[i] = buffers[tsr_planner_at(
            p,
            tsr_value_map_get(&p->numbers, results ? tsr_op_result(m->op, first + i)
                                                   : tsr_op_operand(m->op, first + i)),
            m->at)];
    return count;
}

static size_t tensor_operands(MlirOperation op) {
    size_t count = 0;
    while (count < tsr_op_operand_count(op) && !tsr_planner_is_token(tsr_op_operand(op, count)))
        count++;
    return count;
}

/* Operands of an export or import: buffers written, buffers read, tokens. */
static size_t transfer_operands(const planner *p, const mark *m, const MlirValue *buffers,
                                MlirValue *arguments, int32_t segments[3]) {
    MlirOperation op = m->op;
    bool import = tsr_op_is(op, TSR_SR_IMPORT_BEGIN);
    size_t tensors = tensor_operands(op), n = import ? tensors : tensors / 2, count = 0;
    if (import) {
        count += marked_buffers(p, m, true, 0, n, buffers, arguments);
        count += marked_buffers(p, m, false, 0, n, buffers, arguments + count);
    } else {
        count += marked_buffers(p, m, false, n, n, buffers, arguments);
        count += marked_buffers(p, m, false, 0, n, buffers, arguments + count);
    }
    size_t tokens = marked_tokens(p, op, arguments + count);
    segments[0] = segments[1] = (int32_t)n;
    segments[2] = (int32_t)tokens;
    return count + tokens;
}

static void emit_verify(const planner *p, tsr_builder *b, const mark *m, const MlirValue *buffers) {
    double low = 0, high = 0;
    MlirValue checked;
    bool read = tsr_graph_verify_bounds(m->op, &low, &high);
    TSR_ASSERT(read);
    marked_buffers(p, m, false, 0, 1, buffers, &checked);
    MlirType type = mlirF64TypeGet(b->context);
    const tsr_attr attrs[] = {{"low", mlirFloatAttrDoubleGet(b->context, type, low)},
                              {"high", mlirFloatAttrDoubleGet(b->context, type, high)}};
    b->location = mlirOperationGetLocation(m->op);
    tsr_build(b, &(tsr_op_desc){.name = tsr_op_text(TSR_TARGET_VERIFY),
                                .operand_count = 1,
                                .operands = &checked,
                                .attr_count = 2,
                                .attrs = attrs});
}

void tsr_planner_emit_mark(const planner *p, tsr_builder *b, mark *m, const MlirValue *buffers,
                           MlirValue *arguments) {
    static const char *const preserved[] = {"name", "mode", "on_failure"};
    MlirType type = mlirTypeParseGet(b->context, tsr_ref("!tessera_target.token"));
    bool gives = !tsr_op_is(m->op, TSR_ASYNC_AWAIT), transfer = false;
    int32_t segments[3] = {0};
    tsr_attr attrs[4];
    size_t count = 0, attr_count = 0;
    if (tsr_op_is(m->op, TSR_GRAPH_VERIFY_NUMERICS)) {
        emit_verify(p, b, m, buffers);
        return;
    }
    for (size_t i = 0; i < 3 && gives; i++)
        if (tsr_op_has(m->op, preserved[i]))
            attrs[attr_count++] = (tsr_attr){preserved[i], tsr_op_attr(m->op, preserved[i])};
    transfer = tsr_op_is(m->op, TSR_SR_EXPORT_BEGIN) || tsr_op_is(m->op, TSR_SR_IMPORT_BEGIN);
    if (transfer) {
        count = transfer_operands(p, m, buffers, arguments, segments);
        attrs[attr_count++] =
            (tsr_attr){"operandSegmentSizes", mlirDenseI32ArrayGet(b->context, 3, segments)};
    } else {
        count = marked_tokens(p, m->op, arguments);
        if (tsr_op_is(m->op, TSR_SR_LEAVE))
            count +=
                marked_buffers(p, m, false, 0, tensor_operands(m->op), buffers, arguments + count);
    }
    b->location = mlirOperationGetLocation(m->op);
    MlirOperation op = tsr_build(b, &(tsr_op_desc){.name = tsr_op_text(marks[tsr_op_of(m->op)]),
                                                   .operand_count = count,
                                                   .operands = arguments,
                                                   .result_count = gives,
                                                   .results = &type,
                                                   .attr_count = attr_count,
                                                   .attrs = attrs});
    if (gives) m->token = tsr_op_result(op, 0);
}
