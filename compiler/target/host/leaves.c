/* SPDX-License-Identifier: Apache-2.0
 *
 * Each op gets a turn: 2 s for what runs once before loop s, 2 s + 1 for what runs in it. A leaf
 * launch runs in the loop of its latest operand, or in the one before which that is there; what a
 * loop's collectives make is there before the next one. Parts are taken and joined between loops.
 */
#include "compiler/target/host/leaves.h"

#include "compiler/schedule/schedule.h"

typedef struct timing {
    bool leaf;
    uint32_t stage; /* the loop it is made in; else the first one that can read it */
    bool ready;     /* of a leaf: there before that loop */
} timing;

typedef struct turns {
    tsr_ctx *ctx;
    tsr_arena *arena;
    MlirOperation func;
    tsr_value_map numbers;
    timing *timings;
    uint32_t count;
    MlirOperation *ops; /* calls, collectives, parts taken and joined */
    uint32_t *turn;
    uint32_t op_count, turn_max;
} turns;

static tsr_op_class class_of(MlirOperation op) {
    const tsr_op_row *row = tsr_op_row_find(op);
    return row ? row->op_class : TSR_CLASS_OTHER;
}

static bool has_leaves(MlirBlock block) {
    TSR_FOR_EACH_OP(op, block) {
        tsr_op_class found = class_of(op);
        if (found == TSR_CLASS_LEAF || found == TSR_CLASS_COLLECTIVE || found == TSR_CLASS_TAKE)
            return true;
    }
    return false;
}

/* A module that was read may bring marks along. */
static void drop_marks(MlirBlock block) {
    TSR_FOR_EACH_OP(op, block) mlirOperationRemoveAttributeByName(op, tsr_ref(TSR_LEAF_LOOP));
}

static void drop_barriers(MlirBlock block) {
    TSR_FOR_EACH_OP(op, block) {
        if (class_of(op) != TSR_CLASS_BARRIER) continue;
        for (size_t i = 0; i < tsr_op_result_count(op); i++)
            mlirValueReplaceAllUsesOfWith(tsr_op_result(op, i), tsr_op_operand(op, i));
        mlirOperationDestroy(op);
    }
}

static TSR_RESULT set_timing(turns *t, MlirValue value, timing is) {
    t->timings[t->count] = is;
    if (!tsr_value_map_set(&t->numbers, t->arena, value, t->count++))
        FAIL(t->ctx, TSR_MEMORY, "no memory to order @%s", tsr_op_symbol(t->func));
    return TSR_SUCCESS;
}

/* The latest of the operands'. */
static TSR_RESULT read_operands(turns *t, MlirOperation op, timing *out_latest) {
    timing latest = {.ready = true};
    for (size_t i = 0; i < tsr_op_operand_count(op); i++) {
        uint32_t number = tsr_value_map_get(&t->numbers, tsr_op_operand(op, i));
        if (number == UINT32_MAX)
            FAIL(t->ctx, TSR_INTERNAL, "@%s: unknown value", tsr_op_symbol(t->func));
        const timing *is = &t->timings[number];
        latest.leaf = latest.leaf || is->leaf;
        if (is->stage > latest.stage) latest = (timing){latest.leaf, is->stage, true};
        if (is->stage == latest.stage) latest.ready = latest.ready && (!is->leaf || is->ready);
    }
    *out_latest = latest;
    return TSR_SUCCESS;
}

static void add_turn(turns *t, MlirOperation op, uint32_t turn) {
    t->ops[t->op_count] = op;
    t->turn[t->op_count++] = turn;
    if (turn > t->turn_max) t->turn_max = turn;
}

static TSR_RESULT read_op(turns *t, MlirOperation op) {
    tsr_op_class is = class_of(op);
    if (tsr_op_is(op, "tessera.reshape"))
        FAIL(t->ctx, TSR_COMPILE, "@%s: a view in an entry with leaves; expected a kernel",
             tsr_op_symbol(t->func));
    timing made = {.leaf = true, .ready = true};
    bool sums = is == TSR_CLASS_COLLECTIVE;
    if (is != TSR_CLASS_LEAF) TRY(t->ctx, read_operands(t, op, &made));
    if (tsr_op_is(op, "tsched.call") || sums) {
        add_turn(t, op, 2 * made.stage + (made.leaf || sums));
        made.ready = false;
        if (sums) made = (timing){.stage = made.stage + 1};
    } else if (is == TSR_CLASS_TAKE || is == TSR_CLASS_JOIN) {
        uint32_t stage = made.stage + !made.ready; /* before this loop */
        add_turn(t, op, 2 * stage);
        made = (timing){.leaf = is == TSR_CLASS_TAKE, .stage = stage, .ready = true};
    } else if (is != TSR_CLASS_LEAF && made.leaf)
        FAIL(t->ctx, TSR_COMPILE, "@%s: %s of a value that differs between leaves",
             tsr_op_symbol(t->func), tsr_op_name(op));
    for (size_t i = 0; i < tsr_op_result_count(op); i++)
        TRY(t->ctx, set_timing(t, tsr_op_result(op, i), made));
    return TSR_SUCCESS;
}

static bool is_sink(MlirOperation op) {
    return tsr_op_is(op, "tessera.assign") || tsr_op_is(op, "func.return");
}

static void move_ops(turns *t, MlirBlock block) {
    MlirOperation sink = mlirBlockGetFirstOperation(block);
    while (!is_sink(sink)) sink = mlirOperationGetNextInBlock(sink);
    for (uint32_t turn = 0; turn <= t->turn_max; turn++)
        for (uint32_t i = 0; i < t->op_count; i++) {
            if (t->turn[i] != turn) continue;
            mlirOperationMoveBefore(t->ops[i], sink);
            if (turn % 2 == 0) continue;
            MlirContext context = mlirOperationGetContext(t->ops[i]);
            tsr_op_set(t->ops[i], TSR_LEAF_LOOP, tsr_attr_make_i64(context, turn / 2));
        }
}

tsr_result tsr_host_order_leaves(tsr_ctx *ctx, MlirOperation func, tsr_arena *arena) {
    MlirBlock block = tsr_op_body(func);
    turns t = {.ctx = ctx, .arena = arena, .func = func};
    size_t values = (size_t)mlirBlockGetNumArguments(block), ops = 0;
    drop_marks(block);
    if (!has_leaves(block)) return TSR_SUCCESS;
    drop_barriers(block);
    TSR_FOR_EACH_OP(op, block) {
        values += tsr_op_result_count(op);
        ops++;
    }
    t.timings = TSR_NEW(arena, timing, values + 1);
    t.ops = TSR_NEW(arena, MlirOperation, ops + 1);
    t.turn = TSR_NEW(arena, uint32_t, ops + 1);
    if (!t.timings || !t.ops || !t.turn)
        FAIL(ctx, TSR_MEMORY, "no memory to order @%s", tsr_op_symbol(func));
    for (intptr_t i = 0; i < mlirBlockGetNumArguments(block); i++)
        TRY(ctx, set_timing(&t, mlirBlockGetArgument(block, i), (timing){0}));
    TSR_FOR_EACH_OP(op, block) TRY(ctx, read_op(&t, op));
    move_ops(&t, block);
    return TSR_SUCCESS;
}
