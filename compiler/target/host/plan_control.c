/* SPDX-License-Identifier: Apache-2.0
 *
 * Loops and branches of an entry: the commands of their bodies are part of the entry's list,
 * between commands that repeat or skip them. A carried value has one slot for all iterations. The
 * slot of a carried value is written at the end of each iteration: by the body's own launch if
 * nothing reads the old value any more, otherwise by a copy.
 */
#include "compiler/target/host/planner.h"

#include <string.h>

/* A tessera.loop, with its operands and bodies. */
typedef struct loop_op {
    MlirOperation op;
    MlirBlock bodies[2];
    uint32_t body_count;
    size_t first, carried, sequences, captures; /* operands, in this order */
    uint64_t times;
} loop_op;

static TSR_RESULT read_loop(const planner *p, MlirOperation op, loop_op *out) {
    MlirAttribute bodies = tsr_op_attr(op, "bodies");
    int64_t carried = 0, sequences = 0, times = 0;
    tsr_op_i64(op, "carried", &carried);
    tsr_op_i64(op, "sequences", &sequences);
    tsr_op_i64(op, "times", &times);
    *out = (loop_op){.op = op,
                     .body_count = strcmp(tsr_op_string(op, "kind"), "scan") == 0 ? 1 : 2,
                     .first = strcmp(tsr_op_string(op, "kind"), "if") == 0,
                     .carried = (size_t)carried,
                     .sequences = (size_t)sequences,
                     .times = (uint64_t)times};
    out->captures = tsr_op_operand_count(op) - out->first - out->carried - out->sequences;
    for (uint32_t i = 0; i < out->body_count; i++) {
        const char *name = tsr_attr_string(mlirArrayAttrGetElement(bodies, (intptr_t)i));
        MlirOperation func = tsr_module_find(p->module, name ? name : "");
        if (!tsr_op_is(func, TSR_FUNC_FUNC))
            FAIL(p->ctx, TSR_COMPILE, "@%s: a loop's body '%s' is not a function", p->entry->name,
                 name ? name : "");
        out->bodies[i] = tsr_op_body(func);
    }
    return TSR_SUCCESS;
}

tsr_result tsr_planner_count(const planner *p, MlirBlock block, uint32_t depth, size_t *values,
                             size_t *launches) {
    if (depth > TSR_PROGRAM_DEPTH_MAX)
        FAIL(p->ctx, TSR_COMPILE,
             "@%s: at most %d loops and branches can be nested, and none in itself", p->entry->name,
             TSR_PROGRAM_DEPTH_MAX);
    *values += (size_t)mlirBlockGetNumArguments(block);
    TSR_FOR_EACH_OP(op, block) {
        /* A sink adds a copy destination for each operand, and possibly a temporary. */
        *values += tsr_op_result_count(op);
        if (tsr_op_result_count(op) == 0) *values += 2 * tsr_op_operand_count(op);
        ++*launches;
        if (!tsr_op_is(op, TSR_GRAPH_LOOP)) continue;
        loop_op l;
        TRY(p->ctx, read_loop(p, op, &l));
        *values += l.carried;
        *launches += 3 * l.carried + l.sequences + 2 * tsr_op_result_count(op) + 3;
        for (uint32_t i = 0; i < l.body_count; i++)
            TRY(p->ctx, tsr_planner_count(p, l.bodies[i], depth + 1, values, launches));
    }
    return TSR_SUCCESS;
}

/* ---- commands ---- */

/* Adds the next command; its operands live at least until it. */
static void add(planner *p, control c) {
    for (uint32_t i = 0; i < c.count; i++) p->values[c.values[i]].first_end = p->launch_count + 1;
    p->launches[p->launch_count++] =
        (launch){.kind = KIND_CONTROL, .loop = NONE, .control = c, .location = p->at};
}

static void add_copy(planner *p, uint32_t to, uint32_t from) {
    add(p, (control){.count = 2, .values = {to, from}});
}

/* The commands since `begin` form its range; if there are none, `begin` is removed. */
static void end_range(planner *p, uint32_t begin, bool repeats) {
    uint32_t commands = p->launch_count - begin - 1;
    p->launches[begin].control.commands = commands;
    if (commands == 0) p->launch_count = begin;
    if (commands && repeats) p->ranges[p->range_count++] = (loop){begin, p->launch_count};
}

static TSR_RESULT find(planner *p, MlirValue mlir, uint32_t *out_number) {
    value *found = NULL;
    TRY(p->ctx, tsr_planner_find(p, mlir, &found));
    *out_number = (uint32_t)(found - p->values);
    return TSR_SUCCESS;
}

static TSR_RESULT stand_for(planner *p, MlirValue mlir, uint32_t number) {
    if (!tsr_value_map_set(&p->numbers, p->arena, mlir, number))
        FAIL(p->ctx, TSR_MEMORY, "no memory to plan @%s", p->entry->name);
    return TSR_SUCCESS;
}

/* A slot for the value; it is in use from the current command on. */
static TSR_RESULT add_buffer(planner *p, MlirValue mlir, uint32_t *out_number) {
    return tsr_planner_add_value(p, mlir,
                                 (value){.buffer = {.space = TSR_SPACE_WORKSPACE},
                                         .maker = p->launch_count,
                                         .first_end = p->launch_count + 1},
                                 out_number);
}

static MlirValue argument(MlirBlock block, size_t index) {
    return mlirBlockGetArgument(block, (intptr_t)index);
}

static uint32_t root_of(const planner *p, uint32_t number) {
    return p->values[number].view_of == NONE ? number : p->values[number].view_of;
}

/* Did a launch after `since` make it, and may it have another slot? */
static bool is_free(const planner *p, uint32_t number, uint32_t since) {
    const value *v = &p->values[number];
    return v->maker != NONE && !v->imported && v->maker > since &&
           p->launches[v->maker].kind == KIND_LAUNCH && v->buffer.space == TSR_SPACE_WORKSPACE &&
           v->view_of == NONE && !v->viewed;
}

/* From now on `number` uses the memory of `owner`. */
static void share_memory(planner *p, uint32_t number, uint32_t owner) {
    p->values[number].view_of = owner;
    p->values[owner].viewed = true;
}

/* Binds the values that both bodies read from outside. */
static TSR_RESULT bind_captures(planner *p, const loop_op *l, MlirBlock body) {
    for (size_t i = 0; i < l->captures; i++) {
        uint32_t number = NONE;
        size_t index = l->carried + l->sequences + i;
        TRY(p->ctx, find(p, tsr_op_operand(l->op, l->first + index), &number));
        TRY(p->ctx, stand_for(p, argument(body, index), number));
    }
    return TSR_SUCCESS;
}

/* Collects the commands of the body. *out_results: the numbers of its results, in the arena. */
static TSR_RESULT collect_body(planner *p, MlirBlock body, uint32_t **out_results) {
    MlirLocation at = p->at;
    TRY(p->ctx, tsr_planner_collect_block(p, body));
    p->at = at;
    MlirOperation end = mlirBlockGetTerminator(body);
    size_t count = tsr_op_operand_count(end);
    uint32_t *results = TSR_NEW(p->arena, uint32_t, count + 1);
    if (!results) FAIL(p->ctx, TSR_MEMORY, "no memory to plan @%s", p->entry->name);
    for (size_t i = 0; i < count; i++) TRY(p->ctx, find(p, tsr_op_operand(end, i), &results[i]));
    *out_results = results;
    return TSR_SUCCESS;
}

/* ---- loops ---- */

/* May the launch that makes `next` write it over `carried`? The lives of values already include all
 * other reads of the old value in the body. */
static bool writes_over(const planner *p, const loop_op *l, uint32_t begin, uint32_t carried,
                        uint32_t next, const uint32_t *all) {
    const value *old = &p->values[carried];
    if (!is_free(p, next, begin) || old->viewed) return false;
    for (size_t k = 0; k < l->carried; k++)
        if (all[k] == carried) return false;
    uint32_t maker = p->values[next].maker;
    return old->first_end <= maker + 1 &&
           tsr_planner_overwrites(p, &p->launches[maker], &p->values[next], carried);
}

/* Assigns `next` to the carried values, as if all at once. */
static TSR_RESULT carry_on(planner *p, const loop_op *l, uint32_t begin, const uint32_t *carried,
                           uint32_t *next) {
    for (size_t k = 0; k < l->carried; k++) {
        if (!writes_over(p, l, begin, carried[k], next[k], next)) continue;
        share_memory(p, next[k], carried[k]);
        next[k] = carried[k];
    }
    for (size_t k = 0; k < l->carried; k++) {
        if (next[k] == carried[k]) continue;
        bool taken = false; /* another copy overwrites it */
        for (size_t i = 0; i < l->carried; i++) taken = taken || root_of(p, next[k]) == carried[i];
        if (!taken) continue;
        uint32_t copy = tsr_planner_add_buffer(p, TSR_SPACE_WORKSPACE, 0, &p->values[next[k]]);
        p->values[copy].maker = p->launch_count;
        add_copy(p, copy, next[k]);
        next[k] = copy;
    }
    for (size_t k = 0; k < l->carried; k++)
        if (next[k] != carried[k]) add_copy(p, carried[k], next[k]);
    return TSR_SUCCESS;
}

/* Places for carried values, which are the first body's arguments, with their initial values. */
static TSR_RESULT begin_carried(planner *p, const loop_op *l, uint32_t **out_carried) {
    uint32_t *carried = TSR_NEW(p->arena, uint32_t, l->carried + 1);
    if (!carried) FAIL(p->ctx, TSR_MEMORY, "no memory to plan @%s", p->entry->name);
    for (size_t k = 0; k < l->carried; k++) {
        uint32_t from = NONE;
        TRY(p->ctx, find(p, tsr_op_operand(l->op, k), &from));
        TRY(p->ctx, add_buffer(p, argument(l->bodies[0], k), &carried[k]));
        add_copy(p, carried[k], from);
    }
    *out_carried = carried;
    return TSR_SUCCESS;
}

/* The carried values are the results of the loop and remain after it. */
static TSR_RESULT end_carried(planner *p, const loop_op *l, const uint32_t *carried) {
    for (size_t k = 0; k < l->carried; k++) {
        value *v = &p->values[carried[k]];
        if (v->first_end < p->launch_count) v->first_end = p->launch_count;
        TRY(p->ctx, stand_for(p, tsr_op_result(l->op, k), carried[k]));
    }
    return TSR_SUCCESS;
}

static TSR_RESULT collect_scan(planner *p, const loop_op *l) {
    bool reverse = tsr_op_flag(l->op, "reverse");
    uint32_t *carried = NULL, *next = NULL, begin;
    TRY(p->ctx, begin_carried(p, l, &carried));
    begin = p->launch_count;
    add(p, (control){.kind = "repeat", .times = l->times});
    for (size_t i = l->carried; i < l->carried + l->sequences; i++) {
        uint32_t sequence = NONE, slice = NONE;
        TRY(p->ctx, find(p, tsr_op_operand(l->op, i), &sequence));
        TRY(p->ctx, add_buffer(p, argument(l->bodies[0], i), &slice));
        add(p,
            (control){.kind = "take", .count = 2, .values = {slice, sequence}, .reverse = reverse});
    }
    TRY(p->ctx, bind_captures(p, l, l->bodies[0]));
    TRY(p->ctx, collect_body(p, l->bodies[0], &next));
    for (size_t i = l->carried; i < tsr_op_result_count(l->op); i++) {
        uint32_t sequence = NONE;
        TRY(p->ctx, add_buffer(p, tsr_op_result(l->op, i), &sequence));
        p->values[sequence].maker = begin;
        add(p, (control){
                   .kind = "put", .count = 2, .values = {sequence, next[i]}, .reverse = reverse});
    }
    TRY(p->ctx, carry_on(p, l, begin, carried, next));
    end_range(p, begin, true);
    return end_carried(p, l, carried);
}

static TSR_RESULT collect_while(planner *p, const loop_op *l) {
    uint32_t *carried = NULL, *holds = NULL, *next = NULL, begin;
    TRY(p->ctx, begin_carried(p, l, &carried));
    begin = p->launch_count;
    add(p, (control){.kind = "repeat", .times = l->times});
    TRY(p->ctx, bind_captures(p, l, l->bodies[0]));
    TRY(p->ctx, collect_body(p, l->bodies[0], &holds));
    add(p, (control){.kind = "stop", .count = 1, .values = {holds[0]}});
    for (size_t k = 0; k < l->carried; k++)
        TRY(p->ctx, stand_for(p, argument(l->bodies[1], k), carried[k]));
    TRY(p->ctx, bind_captures(p, l, l->bodies[1]));
    TRY(p->ctx, collect_body(p, l->bodies[1], &next));
    TRY(p->ctx, carry_on(p, l, begin, carried, next));
    end_range(p, begin, true);
    return end_carried(p, l, carried);
}

/* ---- branches ---- */

static TSR_RESULT collect_branches(planner *p, const loop_op *l) {
    size_t count = tsr_op_result_count(l->op);
    uint32_t condition = NONE, first = p->launch_count;
    uint32_t *results = NULL, *slots = TSR_NEW(p->arena, uint32_t, count + 1);
    if (!slots) FAIL(p->ctx, TSR_MEMORY, "no memory to plan @%s", p->entry->name);
    TRY(p->ctx, find(p, tsr_op_operand(l->op, 0), &condition));
    for (size_t k = 0; k < count; k++)
        TRY(p->ctx, add_buffer(p, tsr_op_result(l->op, k), &slots[k]));
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t begin = p->launch_count;
        add(p, (control){.kind = i ? "unless" : "when", .count = 1, .values = {condition}});
        TRY(p->ctx, bind_captures(p, l, l->bodies[i]));
        TRY(p->ctx, collect_body(p, l->bodies[i], &results));
        for (size_t k = 0; k < count; k++) {
            if (is_free(p, results[k], begin))
                share_memory(p, results[k], slots[k]);
            else
                add_copy(p, slots[k], results[k]);
        }
        end_range(p, begin, false);
    }
    for (size_t k = 0; k < count; k++) {
        p->values[slots[k]].maker = first;
        p->values[slots[k]].first_end = p->launch_count;
    }
    return TSR_SUCCESS;
}

tsr_result tsr_planner_collect_control(planner *p, MlirOperation op) {
    loop_op l;
    TRY(p->ctx, read_loop(p, op, &l));
    if (l.first) return collect_branches(p, &l);
    return l.body_count == 1 ? collect_scan(p, &l) : collect_while(p, &l);
}

/* ---- lives, writing ---- */

void tsr_planner_stretch_ranges(planner *p) {
    for (uint32_t r = 0; r < p->range_count; r++)
        for (uint32_t i = 0; i < p->value_count; i++) {
            const loop *in = &p->ranges[r];
            value *v = &p->values[i];
            bool outside = v->maker == NONE || v->maker <= in->begin;
            if (outside && v->first_end > in->begin && v->first_end < in->end)
                v->first_end = in->end;
        }
}

void tsr_planner_emit_control(tsr_builder *b, const launch *l, const MlirValue *buffers) {
    const control *c = &l->control;
    const MlirValue operands[] = {c->count ? buffers[c->values[0]] : (MlirValue){NULL},
                                  c->count > 1 ? buffers[c->values[1]] : (MlirValue){NULL}};
    b->location = l->location;
    if (!c->kind) {
        tsr_build(b, &(tsr_op_desc){
                         .name = "tessera_target.copy", .operand_count = 2, .operands = operands});
        return;
    }
    tsr_attr attrs[4] = {{"kind", tsr_attr_make_string(b->context, c->kind)}};
    size_t count = 1;
    if (c->commands)
        attrs[count++] = (tsr_attr){"commands", tsr_attr_make_i64(b->context, c->commands)};
    if (c->times)
        attrs[count++] = (tsr_attr){"times", tsr_attr_make_i64(b->context, (int64_t)c->times)};
    if (c->reverse) attrs[count++] = (tsr_attr){"reverse", tsr_attr_make_unit(b->context)};
    tsr_build(b, &(tsr_op_desc){.name = "tessera_target.control",
                                .operand_count = c->count,
                                .operands = operands,
                                .attr_count = count,
                                .attrs = attrs});
}
