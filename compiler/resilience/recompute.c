/* SPDX-License-Identifier: Apache-2.0
 *
 * Pass tessera-insert-recompute, on straight-line programs that autodiff has run on. Outline: read
 * the block · for each segment, from the last to the first, choose the values that are recomputed
 * (choose.c) · walk the backward ops and, before the first one that reads such a value, insert a
 * barrier, after which the ops that compute it run again.
 *
 * Afterwards an attribute of the function describes the plan:
 *   tessera_sr.recompute = [saved bytes without, saved bytes with, ops run again, their operations]
 */
#include "compiler/resilience/recompute.h"

#include "compiler/graph/graph.h"
#include "compiler/ir/attributes.h"
#include "compiler/ir/op_rows.h"
#include "compiler/ir/value_map.h"
#include "compiler/resilience/passes.h"
#include "runtime/base/array.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    NONE = UINT32_MAX,
    BARRIER_VALUES = 12, /* maximum values of one barrier */
    UNKNOWN_WEIGHT = 24, /* per element of an op that consists of others: a norm, a softmax */
    PRICE_STEPS = 40,    /* budgets: prices are powers of two up to 2^40 */
};

typedef struct recompute {
    tsr_sr_program program;
    tsr_arena arena;
    MlirOperation func;
    MlirContext context;
    tsr_value_map numbers; /* value -> its number */
    uint32_t *barred;      /* value -> stamp of the batch that passed it through a barrier */
    MlirValue *behind;     /* value -> the result of that barrier */
    uint32_t stamp;
    uint64_t before_bytes, saved_bytes, work;
    uint32_t made; /* number of ops run again */
} recompute;

/* ---- read ------------------------------------------------------------------------------------ */

static uint64_t work_of(MlirOperation op) {
    const tsr_op_row *row = tsr_op_row_find(op);
    uint64_t largest = 0, count = 0, work;
    tsr_type type;
    if (tsr_op_result_count(op) == 0) return 0;
    if (row && row->op_class != TSR_CLASS_MAP) {
        work = tsr_op_work(op);
        if (work) return work;
    }
    for (size_t i = 0; i < tsr_op_operand_count(op) + tsr_op_result_count(op); i++) {
        size_t k = i - tsr_op_operand_count(op);
        bool operand = i < tsr_op_operand_count(op);
        if (!tsr_value_type(operand ? tsr_op_operand(op, i) : tsr_op_result(op, k), &type))
            continue;
        if (tsr_shape_count(&type.shape, &count) && count > largest) largest = count;
    }
    if (__builtin_mul_overflow(largest, row ? row->weight : UNKNOWN_WEIGHT, &work))
        work = UINT64_MAX;
    return work;
}

static bool is_source(MlirOperation op) {
    switch (tsr_op_of(op)) {
    case TSR_GRAPH_PARAM:
    case TSR_GRAPH_OPT_STATE:
    case TSR_GRAPH_CONSTANT:
    case TSR_GRAPH_STEP:
    case TSR_GRAPH_SEED:
    case TSR_GRAPH_HYPERPARAMETER:
        return true;
    default:
        return false;
    }
}

static bool add_value(recompute *r, MlirValue mlir, uint32_t op) {
    tsr_sr_program *p = &r->program;
    tsr_type type;
    tsr_sr_value value = {.mlir = mlir, .op = op, .saved = op == NONE};
    if (tsr_value_type(mlir, &type) && !tsr_shape_size(&type.shape, type.dtype, &value.size_bytes))
        value.size_bytes = 0;
    p->values[p->value_count] = value;
    return tsr_value_map_set(&r->numbers, &r->arena, mlir, p->value_count++);
}

static bool add_node(recompute *r, MlirOperation op) {
    tsr_sr_program *p = &r->program;
    int64_t segment;
    uint32_t index = p->node_count++;
    uint32_t *operands = TSR_NEW(&r->arena, uint32_t, tsr_op_operand_count(op) + 1);
    if (!operands) return false;
    tsr_sr_node node = {.mlir = op,
                        .segment = TSR_SR_NO_SEGMENT,
                        .backward = tsr_op_has(op, TSR_SR_BACKWARD),
                        .source = is_source(op),
                        .fixed = !tsr_op_is_of(op, TSR_DIALECT_GRAPH),
                        .work = work_of(op),
                        .operand_count = (uint32_t)tsr_op_operand_count(op),
                        .result_count = (uint32_t)tsr_op_result_count(op),
                        .operands = operands,
                        .first_result = p->value_count};
    if (tsr_op_i64(op, TSR_SR_SEGMENT, &segment) && !node.backward && !node.fixed)
        node.segment = (uint32_t)segment;
    for (uint32_t i = 0; i < node.operand_count; i++) {
        operands[i] = tsr_value_map_get(&r->numbers, tsr_op_operand(op, i));
        TSR_ASSERT(operands[i] < p->value_count);
        tsr_sr_value *value = &p->values[operands[i]];
        value->needed = value->needed || (node.backward && node.result_count > 0);
        /* Returned or assigned values have a buffer of their own. */
        value->saved = value->saved || node.result_count == 0;
    }
    p->nodes[index] = node;
    for (uint32_t i = 0; i < node.result_count; i++)
        if (!add_value(r, tsr_op_result(op, i), index)) return false;
    return true;
}

static bool read_func(recompute *r) {
    MlirBlock block = tsr_op_body(r->func);
    size_t nodes = 0, values = (size_t)mlirBlockGetNumArguments(block);
    TSR_FOR_EACH_OP(op, block) {
        nodes++;
        values += tsr_op_result_count(op);
    }
    r->program.arena = &r->arena;
    r->program.nodes = TSR_NEW(&r->arena, tsr_sr_node, nodes + 1);
    r->program.values = TSR_NEW(&r->arena, tsr_sr_value, values + 1);
    r->barred = TSR_NEW(&r->arena, uint32_t, values + 1);
    r->behind = TSR_NEW(&r->arena, MlirValue, values + 1);
    if (!r->program.nodes || !r->program.values || !r->barred || !r->behind) return false;
    for (intptr_t i = 0; i < mlirBlockGetNumArguments(block); i++)
        if (!add_value(r, mlirBlockGetArgument(block, i), NONE)) return false;
    TSR_FOR_EACH_OP(op, block) {
        if (!add_node(r, op)) return false;
    }
    return true;
}

/* ---- choose ---------------------------------------------------------------------------------- */

/* Finds the highest price that meets the budget, which gives the least recomputation. */
static bool decide_by_budget(recompute *r, uint32_t segment, int64_t budget) {
    tsr_sr_choice choice = {0};
    uint64_t low = 0, high = PRICE_STEPS; /* price 2^(i - 1); 0 for i = 0 */
    if (!tsr_sr_choose(&r->program, segment, 0, false, &choice)) return false;
    if (choice.saved_bytes > (uint64_t)budget) {
        tsr_diag_error(mlirOperationGetLocation(r->func), TSR_DIAG_SR_BUDGET,
                       "'@%s': segment %u must save %" PRIu64
                       " bytes even if it recomputes everything else; its budget is %" PRId64,
                       tsr_op_symbol(r->func), segment, choice.saved_bytes, budget);
        return false;
    }
    while (low < high) {
        uint64_t middle = low + (high - low + 1) / 2;
        if (!tsr_sr_choose(&r->program, segment, UINT64_C(1) << (middle - 1), false, &choice))
            return false;
        if (choice.saved_bytes <= (uint64_t)budget)
            low = middle;
        else
            high = middle - 1;
    }
    uint64_t price = low ? UINT64_C(1) << (low - 1) : 0;
    return tsr_sr_choose(&r->program, segment, price, true, &choice);
}

static bool decide_segment(recompute *r, uint32_t segment, const char *policy, int64_t budget) {
    tsr_sr_choice choice;
    bool full = policy && strcmp(policy, "full") == 0;
    if (!full && budget >= 0) return decide_by_budget(r, segment, budget);
    return tsr_sr_choose(&r->program, segment, full ? 0 : TSR_SR_PRICE, true, &choice);
}

/* Values that are not recomputed are saved. */
static void save_others(recompute *r, uint32_t segment_count) {
    for (uint32_t v = 0; v < r->program.value_count; v++) {
        tsr_sr_value *value = &r->program.values[v];
        if (value->op == NONE) continue;
        const tsr_sr_node *node = &r->program.nodes[value->op];
        if (node->segment >= segment_count && value->needed) value->saved = true;
    }
}

/* Bytes of forward values that live until the backward pass. */
static uint64_t count_saved_bytes(const recompute *r) {
    uint64_t bytes = 0;
    for (uint32_t v = 0; v < r->program.value_count; v++) {
        const tsr_sr_value *value = &r->program.values[v];
        bool made = value->op != NONE && !r->program.nodes[value->op].source &&
                    !r->program.nodes[value->op].backward;
        if (made && !value->again && (value->needed || value->saved)) bytes += value->size_bytes;
    }
    return bytes;
}

static bool choose(recompute *r) {
    MlirAttribute policies = tsr_op_attr(r->func, TSR_SR_SEGMENTS);
    MlirAttribute budgets = tsr_op_attr(r->func, TSR_SR_BUDGETS);
    const char *hint = tsr_op_string(r->func, TSR_SR_HINT);
    bool listed = !mlirAttributeIsNull(policies) && mlirAttributeIsAArray(policies) &&
                  !mlirAttributeIsNull(budgets) && mlirAttributeIsAArray(budgets);
    uint32_t given = listed ? (uint32_t)mlirArrayAttrGetNumElements(policies) : 0, count = given;
    int64_t hint_budget = -1;
    tsr_op_i64(r->func, TSR_SR_HINT_BUDGET, &hint_budget);
    if (hint && strcmp(hint, "full") == 0)
        count += tsr_sr_find_segments(&r->program, given, UINT32_MAX / 2);
    else if (hint && strcmp(hint, "none") != 0) {
        for (uint32_t i = 0; i < r->program.node_count; i++) {
            tsr_sr_node *node = &r->program.nodes[i];
            if (tsr_sr_node_is_free(node)) node->segment = given;
        }
        count++;
    }
    r->before_bytes = count_saved_bytes(r);
    save_others(r, count);
    for (uint32_t s = count; s-- > 0;) {
        const char *policy = hint;
        int64_t budget = hint_budget;
        if (s < given) {
            policy = tsr_attr_string(mlirArrayAttrGetElement(policies, s));
            if (!tsr_attr_i64(mlirArrayAttrGetElement(budgets, s), &budget)) budget = -1;
        }
        if (!decide_segment(r, s, policy, budget)) return false;
    }
    r->saved_bytes = count_saved_bytes(r);
    return true;
}

/* ---- write ----------------------------------------------------------------------------------- */

typedef struct batch {
    uint32_t *nodes; /* to run again, ascending */
    uint32_t count;
    MlirOperation before;
    MlirValue trigger; /* may be null */
} batch;

static bool waits(const recompute *r, uint32_t value) {
    return r->program.values[value].again && mlirValueIsNull(r->program.values[value].copy);
}

static int ascending(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Adds the nodes that recompute `value`, and those whose results they need. */
static void collect(recompute *r, batch *b, bool *listed, uint32_t value) {
    uint32_t next = b->count;
    if (!waits(r, value) || listed[r->program.values[value].op]) return;
    b->nodes[b->count++] = r->program.values[value].op;
    listed[r->program.values[value].op] = true;
    for (; next < b->count; next++) {
        const tsr_sr_node *node = &r->program.nodes[b->nodes[next]];
        for (uint32_t i = 0; i < node->operand_count; i++) {
            uint32_t operand = node->operands[i], op = r->program.values[operand].op;
            if (!waits(r, operand) || listed[op]) continue;
            b->nodes[b->count++] = op;
            listed[op] = true;
        }
    }
}

static bool is_leaf(const recompute *r, uint32_t value) { return !r->program.values[value].again; }

/* Parameters need no barrier if another operand has passed one: no pass merges such ops. */
static bool is_barred(const recompute *r, const tsr_sr_node *node, uint32_t value) {
    const tsr_sr_value *v = &r->program.values[value];
    if (!is_leaf(r, value)) return false;
    if (v->op == NONE || !r->program.nodes[v->op].source) return true;
    if (tsr_op_is(r->program.nodes[v->op].mlir, TSR_GRAPH_CONSTANT)) return false;
    for (uint32_t i = 0; i < node->operand_count; i++) {
        const tsr_sr_value *other = &r->program.values[node->operands[i]];
        bool source = other->op != NONE && r->program.nodes[other->op].source;
        if (!source) return false;
    }
    return true;
}

static void build_barrier(recompute *r, const batch *b, const uint32_t *leaves, uint32_t count,
                          uint32_t segment) {
    MlirValue inputs[BARRIER_VALUES + 1];
    MlirType types[BARRIER_VALUES];
    tsr_builder builder = tsr_builder_before(b->before);
    const tsr_attr attr = {"segment", tsr_attr_make_i64(r->context, segment)};
    for (uint32_t i = 0; i < count; i++) {
        inputs[i] = r->program.values[leaves[i]].mlir;
        types[i] = mlirValueGetType(inputs[i]);
    }
    bool has_trigger = !mlirValueIsNull(b->trigger);
    if (has_trigger) inputs[count] = b->trigger;
    MlirOperation barrier = tsr_build(&builder, &(tsr_op_desc){.name = "tessera_sr.barrier",
                                                               .operand_count = count + has_trigger,
                                                               .operands = inputs,
                                                               .result_count = count,
                                                               .results = types,
                                                               .attr_count = 1,
                                                               .attrs = &attr});
    for (uint32_t i = 0; i < count; i++) r->behind[leaves[i]] = tsr_op_result(barrier, i);
}

/* Passes all saved values that the batch reads through barriers. */
static void bar_leaves(recompute *r, const batch *b) {
    uint32_t leaves[BARRIER_VALUES], count = 0;
    uint32_t segment = r->program.nodes[b->nodes[0]].segment;
    r->stamp++;
    for (uint32_t n = 0; n < b->count; n++) {
        const tsr_sr_node *node = &r->program.nodes[b->nodes[n]];
        for (uint32_t i = 0; i < node->operand_count; i++) {
            uint32_t value = node->operands[i];
            if (r->barred[value] == r->stamp || !is_barred(r, node, value)) continue;
            r->barred[value] = r->stamp;
            leaves[count++] = value;
            if (count < BARRIER_VALUES) continue;
            build_barrier(r, b, leaves, count, segment);
            count = 0;
        }
    }
    if (count) build_barrier(r, b, leaves, count, segment);
}

static void run_again(recompute *r, const batch *b, const tsr_sr_node *node) {
    MlirOperation copy = mlirOperationClone(node->mlir);
    mlirOperationRemoveDiscardableAttributeByName(copy, tsr_ref(TSR_SR_SEGMENT));
    mlirOperationRemoveDiscardableAttributeByName(copy, tsr_ref(TSR_PLANNED_GROUP));
    mlirBlockInsertOwnedOperationBefore(mlirOperationGetBlock(b->before), b->before, copy);
    for (uint32_t i = 0; i < node->operand_count; i++) {
        uint32_t value = node->operands[i];
        tsr_sr_value *operand = &r->program.values[value];
        if (operand->again)
            mlirOperationSetOperand(copy, (intptr_t)i, operand->copy);
        else if (is_barred(r, node, value))
            mlirOperationSetOperand(copy, (intptr_t)i, r->behind[value]);
    }
    for (uint32_t i = 0; i < node->result_count; i++) {
        tsr_sr_value *result = &r->program.values[node->first_result + i];
        if (result->again) result->copy = tsr_op_result(copy, i);
    }
    r->made++;
    r->work += node->work;
}

/* A gradient that the op reads, or the last one before it. */
static MlirValue trigger_of(const recompute *r, const tsr_sr_node *node, MlirValue last) {
    for (uint32_t i = 0; i < node->operand_count; i++) {
        const tsr_sr_value *value = &r->program.values[node->operands[i]];
        if (value->op != NONE && r->program.nodes[value->op].backward &&
            !r->program.nodes[value->op].source)
            return value->mlir;
    }
    return last;
}

static bool write(recompute *r) {
    tsr_sr_program *p = &r->program;
    MlirValue last = {NULL};
    batch b = {.nodes = TSR_NEW(&r->arena, uint32_t, (size_t)p->node_count + 1)};
    bool *listed = TSR_NEW(&r->arena, bool, (size_t)p->node_count + 1);
    if (!b.nodes || !listed) return false;
    for (uint32_t n = 0; n < p->node_count; n++) {
        const tsr_sr_node *node = &p->nodes[n];
        if (!node->backward) continue;
        b.count = 0;
        b.before = node->mlir;
        b.trigger = trigger_of(r, node, last);
        for (uint32_t i = 0; i < node->operand_count; i++)
            collect(r, &b, listed, node->operands[i]);
        qsort(b.nodes, b.count, sizeof *b.nodes, ascending);
        if (b.count) bar_leaves(r, &b);
        for (uint32_t i = 0; i < b.count; i++) run_again(r, &b, &p->nodes[b.nodes[i]]);
        for (uint32_t i = 0; i < node->operand_count; i++) {
            const tsr_sr_value *value = &p->values[node->operands[i]];
            if (value->again) mlirOperationSetOperand(node->mlir, (intptr_t)i, value->copy);
        }
        if (node->result_count && !node->source) last = tsr_op_result(node->mlir, 0);
    }
    return true;
}

static void clean_up(const recompute *r) {
    static const char *const names[] = {TSR_SR_SEGMENTS, TSR_SR_BUDGETS, TSR_SR_HINT,
                                        TSR_SR_HINT_BUDGET};
    TSR_FOR_EACH_OP(op, tsr_op_body(r->func)) {
        mlirOperationRemoveDiscardableAttributeByName(op, tsr_ref(TSR_SR_SEGMENT));
        mlirOperationRemoveDiscardableAttributeByName(op, tsr_ref(TSR_SR_BACKWARD));
    }
    for (size_t i = 0; i < TSR_COUNT(names); i++)
        mlirOperationRemoveDiscardableAttributeByName(r->func, tsr_ref(names[i]));
    const int64_t plan[] = {(int64_t)r->before_bytes, (int64_t)r->saved_bytes, r->made,
                            (int64_t)r->work};
    tsr_op_set(r->func, TSR_SR_RECOMPUTE, tsr_attr_make_i64s(r->context, 4, plan));
}

/* ---- the pass -------------------------------------------------------------------------------- */

static bool has_backward(MlirOperation func) {
    TSR_FOR_EACH_OP(op, tsr_op_body(func)) {
        if (tsr_op_has(op, TSR_SR_BACKWARD)) return true;
    }
    return false;
}

static bool run_on(MlirOperation func) {
    recompute r = {.func = func, .context = mlirOperationGetContext(func)};
    bool done = read_func(&r) && choose(&r) && write(&r);
    if (done) clean_up(&r);
    tsr_arena_finish(&r.arena);
    return done;
}

bool tsr_pass_insert_recompute(MlirModule module) {
    bool done = true;
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        if (!tsr_op_is(func, TSR_FUNC_FUNC) || !tsr_op_has_body(func)) continue;
        if (tsr_sr_wants_recompute(func) && has_backward(func)) done = run_on(func) && done;
    }
    return done;
}
