/* SPDX-License-Identifier: Apache-2.0
 *
 * Pass tessera-order-collectives: checks that all ranks run the same collectives in the same order.
 * They do by construction, except where a collective is in a branch or in a while. There the
 * condition must be equal on all ranks, or both branches must run the same collectives.
 *
 * A value can differ from rank to rank if it is an argument of the entry or a part of a tensor, or
 * depends on such a value; what a collective gives to all ranks is equal on all of them, and so are
 * constants, parameters, state, step and seed, and what only depends on these. Calls have been
 * inlined. The state of values only goes from equal to different, so the walk is repeated until
 * nothing changes; loops need that.
 */
#include "compiler/graph/effects/effects.h"
#include "compiler/graph/graph.h"
#include "compiler/ir/resilience_ops.h"
#include "compiler/ir/value_map.h"
#include "compiler/passes.h"
#include "compiler/process/guard.h"
#include "runtime/base/array.h"

#include <stdio.h>

enum { STEPS_SHOWN = 3 };

typedef struct proof {
    tsr_arena arena;
    MlirOperation func;
    tsr_value_map differing; /* indices into `causes` */
    MlirValue *causes;       /* the value that makes this one differ; null: it is a source */
    uint32_t count;
    size_t capacity;
    bool changed, done;
} proof;

static bool differs(const proof *p, MlirValue value) {
    return tsr_value_map_get(&p->differing, value) != UINT32_MAX;
}

static void mark(proof *p, MlirValue value, MlirValue cause) {
    if (differs(p, value)) return;
    if (p->count == p->capacity) {
        MlirValue *larger = TSR_ARENA_GROW(&p->arena, p->causes, &p->capacity, 64);
        TSR_NEED(larger);
        p->causes = larger;
    }
    TSR_NEED(tsr_value_map_set(&p->differing, &p->arena, value, p->count));
    p->causes[p->count++] = cause;
    p->changed = true;
}

static void follow(proof *p, MlirValue value, MlirValue cause) {
    if (differs(p, cause)) mark(p, value, cause);
}

static MlirBlock block_of(MlirOperation op, intptr_t region) {
    return mlirRegionGetFirstBlock(mlirOperationGetRegion(op, region));
}

/* ---- flow ------------------------------------------------------------------------------------ */

static void flow_block(proof *p, MlirBlock block);

static MlirOperation end_of(MlirBlock block) {
    MlirOperation none = {NULL};
    return mlirBlockIsNull(block) ? none : mlirBlockGetTerminator(block);
}

static size_t yield_count(MlirOperation end) {
    return mlirOperationIsNull(end) ? 0 : tsr_op_operand_count(end);
}

static void flow_if(proof *p, MlirOperation op) {
    for (size_t i = 0; i < tsr_op_result_count(op); i++) {
        follow(p, tsr_op_result(op, i), tsr_op_operand(op, 0));
        for (intptr_t r = 0; r < 2; r++)
            follow(p, tsr_op_result(op, i), tsr_op_operand(end_of(block_of(op, r)), i));
    }
}

/* Every carried value depends on the number of iterations, and so on the condition. */
static void flow_while(proof *p, MlirOperation op) {
    MlirValue condition = tsr_op_operand(end_of(block_of(op, 0)), 0);
    for (size_t i = 0; i < tsr_op_result_count(op); i++) {
        MlirValue next = tsr_op_operand(end_of(block_of(op, 1)), i), result = tsr_op_result(op, i);
        follow(p, result, tsr_op_operand(op, i));
        follow(p, result, next);
        follow(p, result, condition);
        for (intptr_t r = 0; r < 2; r++)
            follow(p, mlirBlockGetArgument(block_of(op, r), (intptr_t)i), result);
    }
}

static void flow_scan(proof *p, MlirOperation op) {
    MlirBlock body = block_of(op, 0);
    int64_t carried = 0;
    tsr_op_i64(op, "carried", &carried);
    for (size_t i = 0; i < tsr_op_result_count(op); i++) {
        MlirValue next = tsr_op_operand(end_of(body), i), result = tsr_op_result(op, i);
        follow(p, result, next);
        if ((int64_t)i >= carried) continue;
        follow(p, result, tsr_op_operand(op, i));
        follow(p, mlirBlockGetArgument(body, (intptr_t)i), result);
    }
    for (size_t i = (size_t)carried; i < tsr_op_operand_count(op); i++)
        follow(p, mlirBlockGetArgument(body, (intptr_t)i), tsr_op_operand(op, i));
}

/* Ops that mark a region return what it yields, after a token if they have one; derivatives mix all
 * values. */
static void flow_region(proof *p, MlirOperation op) {
    MlirOperation end = end_of(block_of(op, 0));
    size_t results = tsr_op_result_count(op), yields = yield_count(end);
    bool marks = tsr_sr_is_region(op);
    for (size_t i = 0; i < yields; i++)
        for (size_t k = 0; k < results; k++)
            if (!marks || k == i + results - yields)
                follow(p, tsr_op_result(op, k), tsr_op_operand(end, i));
    for (intptr_t r = 0; r < mlirOperationGetNumRegions(op); r++) {
        MlirBlock block = block_of(op, r);
        if (mlirBlockIsNull(block)) continue;
        for (intptr_t k = 0; k < mlirBlockGetNumArguments(block); k++)
            for (size_t i = 0; i < tsr_op_operand_count(op); i++)
                follow(p, mlirBlockGetArgument(block, k), tsr_op_operand(op, i));
    }
}

static void flow_operands(proof *p, MlirOperation op) {
    for (size_t i = 0; i < tsr_op_result_count(op); i++)
        for (size_t k = 0; k < tsr_op_operand_count(op); k++)
            follow(p, tsr_op_result(op, i), tsr_op_operand(op, k));
}

static void flow_op(proof *p, MlirOperation op) {
    for (intptr_t r = 0; r < mlirOperationGetNumRegions(op); r++)
        if (!mlirBlockIsNull(block_of(op, r))) flow_block(p, block_of(op, r));
    switch (tsr_op_of(op)) {
    case TSR_SR_ALL_REDUCE:
    case TSR_SR_BROADCAST:
    case TSR_SR_ALL_GATHER:
    case TSR_SR_VRANK_SUM:
    case TSR_SR_VRANK_GATHER:
    case TSR_SR_VRANK_ALL_GATHER:
        return;
    case TSR_SR_REDUCE_SCATTER:
    case TSR_SR_SHARD_SLICE:
    case TSR_SR_VRANK:
    case TSR_SR_VRANK_ROWS:
    case TSR_SR_VRANK_PART:
        mark(p, tsr_op_result(op, 0), (MlirValue){NULL});
        return;
    case TSR_GRAPH_IF:
        flow_if(p, op);
        return;
    case TSR_GRAPH_WHILE:
        flow_while(p, op);
        return;
    case TSR_GRAPH_SCAN:
        flow_scan(p, op);
        return;
    default:
        if (mlirOperationGetNumRegions(op)) flow_region(p, op);
        flow_operands(p, op);
    }
}

static void flow_block(proof *p, MlirBlock block) {
    TSR_FOR_EACH_OP(op, block) { flow_op(p, op); }
}

/* ---- collectives of a region ----------------------------------------------------------------- */

static MlirWalkResult find_collective(MlirOperation op, void *user) {
    MlirOperation *found = user;
    if (!(tsr_effects_of(op) & TSR_EFFECT_COLLECTIVE)) return MlirWalkResultAdvance;
    *found = op;
    return MlirWalkResultInterrupt;
}

static bool holds_collective(MlirOperation op) {
    MlirOperation found = {NULL};
    mlirOperationWalk(op, find_collective, &found, MlirWalkPreOrder);
    return !mlirOperationIsNull(found);
}

/* The next op from `op` on that is a collective or holds one; null: none. */
static MlirOperation next_collective(MlirOperation op) {
    while (!mlirOperationIsNull(op) && !holds_collective(op)) op = mlirOperationGetNextInBlock(op);
    return op;
}

/* The same collective: all ranks can run it together, from either branch. One in a region of its
 * own is not compared. */
static bool same_collective(MlirOperation a, MlirOperation b) {
    if (tsr_op_of(a) != tsr_op_of(b) || mlirOperationGetNumRegions(a) ||
        tsr_op_operand_count(a) != tsr_op_operand_count(b) ||
        !mlirAttributeEqual(mlirOperationGetAttributeByName(a, tsr_ref("axis")),
                            mlirOperationGetAttributeByName(b, tsr_ref("axis"))))
        return false;
    for (size_t i = 0; i < tsr_op_operand_count(a); i++)
        if (!mlirTypeEqual(mlirValueGetType(tsr_op_operand(a, i)),
                           mlirValueGetType(tsr_op_operand(b, i))))
            return false;
    return true;
}

/* Finds the first difference between the collectives of two blocks; both null: none. */
static void compare(MlirBlock one, MlirBlock other, MlirOperation *out_one,
                    MlirOperation *out_other) {
    MlirOperation a = next_collective(mlirBlockGetFirstOperation(one));
    MlirOperation b = next_collective(mlirBlockGetFirstOperation(other));
    while (!mlirOperationIsNull(a) && !mlirOperationIsNull(b) && same_collective(a, b)) {
        a = next_collective(mlirOperationGetNextInBlock(a));
        b = next_collective(mlirOperationGetNextInBlock(b));
    }
    *out_one = a;
    *out_other = b;
}

/* ---- messages -------------------------------------------------------------------------------- */

static void note_source(tsr_notes *to, const proof *p, MlirValue value) {
    tsr_graph_port port;
    MlirOperation owner = tsr_value_owner(value);
    char *text = tsr_notes_add(to, mlirOperationIsNull(owner) ? mlirValueGetLocation(value)
                                                              : mlirOperationGetLocation(owner));
    if (!mlirOperationIsNull(owner))
        snprintf(text, TSR_NOTE_MAX, "%s returns another part on each rank", tsr_op_name(owner));
    else if (tsr_graph_input_read(p->func, (size_t)mlirBlockArgumentGetArgNumber(value), &port))
        snprintf(text, TSR_NOTE_MAX,
                 "argument '%.200s' of entry '@%.64s' can differ from rank to rank", port.name,
                 tsr_op_symbol(p->func));
    else
        snprintf(text, TSR_NOTE_MAX, "an argument of entry '@%.200s' can differ from rank to rank",
                 tsr_op_symbol(p->func));
}

/* From the condition back to what differs from rank to rank. */
static void note_reason(tsr_notes *to, const proof *p, MlirValue value) {
    size_t shown = 0;
    for (;;) {
        MlirValue cause = p->causes[tsr_value_map_get(&p->differing, value)];
        MlirOperation owner = tsr_value_owner(value);
        if (mlirValueIsNull(cause)) break;
        if (!mlirOperationIsNull(owner) && shown < STEPS_SHOWN) {
            snprintf(tsr_notes_add(to, mlirOperationGetLocation(owner)), TSR_NOTE_MAX,
                     shown ? "which depends on this %s" : "the condition depends on this %s",
                     tsr_op_name(owner));
            shown++;
        }
        value = cause;
    }
    note_source(to, p, value);
}

static void note_branch(tsr_notes *to, const char *ranks, MlirBlock block,
                        MlirOperation collective) {
    bool none = mlirOperationIsNull(collective);
    MlirOperation at = none ? mlirBlockGetTerminator(block) : collective;
    snprintf(tsr_notes_add(to, mlirOperationGetLocation(at)), TSR_NOTE_MAX, "%s run %s%s", ranks,
             none                                     ? "no collective before this end"
             : mlirOperationGetNumRegions(collective) ? "collectives in this "
                                                      : "this ",
             none ? "" : tsr_op_name(collective));
}

static void refuse(proof *p, MlirOperation op, MlirValue condition, tsr_notes *with) {
    char text[TSR_NOTE_MAX];
    note_reason(with, p, condition);
    snprintf(text, sizeof text,
             "%s: ranks could run different collectives, because its condition is not proved equal "
             "on all ranks; all-reduce the condition",
             tsr_op_name(op));
    tsr_diag_error_notes(mlirOperationGetLocation(op), TSR_DIAG_COLLECTIVE_ORDER, text, with->count,
                         with->list);
    p->done = false;
}

/* ---- checks ---------------------------------------------------------------------------------- */

static void check_if(proof *p, MlirOperation op) {
    MlirOperation one, other;
    tsr_notes with = {.count = 0};
    if (!differs(p, tsr_op_operand(op, 0))) return;
    compare(block_of(op, 0), block_of(op, 1), &one, &other);
    if (mlirOperationIsNull(one) && mlirOperationIsNull(other)) return;
    note_branch(&with, "ranks on which the condition is true", block_of(op, 0), one);
    note_branch(&with, "ranks on which the condition is false", block_of(op, 1), other);
    refuse(p, op, tsr_op_operand(op, 0), &with);
}

static void check_while(proof *p, MlirOperation op) {
    MlirValue condition = tsr_op_operand(end_of(block_of(op, 0)), 0);
    tsr_notes with = {.count = 0};
    MlirOperation none = {NULL}, found = {NULL};
    if (!differs(p, condition) || !holds_collective(op)) return;
    for (intptr_t r = 1; r >= 0 && mlirOperationIsNull(found); r--)
        found = next_collective(mlirBlockGetFirstOperation(block_of(op, r)));
    note_branch(&with, "ranks that begin another iteration", block_of(op, 1), found);
    note_branch(&with, "ranks that end the loop", block_of(op, 0), none);
    refuse(p, op, condition, &with);
}

static MlirWalkResult check_op(MlirOperation op, void *user) {
    if (tsr_op_is(op, TSR_GRAPH_IF)) check_if(user, op);
    if (tsr_op_is(op, TSR_GRAPH_WHILE)) check_while(user, op);
    return MlirWalkResultAdvance;
}

static void prove(proof *p) {
    MlirBlock body = tsr_op_body(p->func);
    for (intptr_t i = 0; i < mlirBlockGetNumArguments(body); i++)
        mark(p, mlirBlockGetArgument(body, i), (MlirValue){NULL});
    for (p->changed = true; p->changed;) {
        p->changed = false;
        flow_block(p, body);
    }
    mlirOperationWalk(p->func, check_op, p, MlirWalkPreOrder);
}

static MlirWalkResult find_conditional(MlirOperation op, void *user) {
    bool *found = user;
    tsr_op id = tsr_op_of(op);
    *found = (id == TSR_GRAPH_IF || id == TSR_GRAPH_WHILE) && holds_collective(op);
    return *found ? MlirWalkResultInterrupt : MlirWalkResultAdvance;
}

bool tsr_pass_order_collectives(MlirModule module) {
    bool done = true;
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        proof p = {.func = func, .done = true};
        bool conditional = false;
        if (!tsr_op_is(func, TSR_FUNC_FUNC) || !tsr_op_has(func, "tessera.entry")) continue;
        mlirOperationWalk(func, find_conditional, &conditional, MlirWalkPreOrder);
        if (conditional) prove(&p);
        done = done && p.done;
        tsr_arena_finish(&p.arena);
    }
    return done;
}
