/* SPDX-License-Identifier: Apache-2.0
 *
 * Each op gets a phase: 2 s for an op that runs once before loop s, 2 s + 1 for an op that runs in
 * it. A virtual rank launch runs in the loop of its latest operand, or in the loop before which
 * that operand is available. The results of a loop's collectives are available before the next
 * loop. Parts are taken and joined between loops. A tensor that ranks have parts of is gathered
 * right before the op that reads it, in the phase of that op, and gathered again if another tensor
 * was gathered since. A view has the phase of the kernel whose result it views. Regions begin and
 * end between loops: the values that pass their gates belong to loops that are over.
 */
#include "compiler/target/host/vranks.h"

#include "compiler/ir/op_rows.h"
#include "compiler/ir/value_map.h"
#include "compiler/resilience/resilience.h"
#include "compiler/schedule/schedule.h"
#include "manifests/program.h"

typedef struct timing {
    bool vrank;
    uint32_t stage; /* the loop that makes it; else the first one that can read it */
    bool ready;     /* for values of a virtual rank: available before that loop */
} timing;

/* A tensor that is gathered where it is read. */
typedef struct gathering {
    MlirOperation original; /* to be removed */
    MlirValue now;          /* the result of the last gather, which is in phase `phase` */
    uint32_t phase, seen;   /* seen: the value of `gathered` at the last read */
    bool made;
} gathering;

enum { AT_END = UINT32_MAX }; /* a phase after all others */
enum { HOISTED_SHARE = 512 }; /* a smaller part of all tensors is gathered once, before the loops */

typedef struct phases {
    tsr_ctx *ctx;
    tsr_arena *arena;
    MlirOperation func;
    tsr_value_map numbers;
    timing *timings;
    uint32_t count;
    MlirOperation *ops; /* calls, collectives, parts taken and joined */
    uint32_t *phase;
    uint32_t op_count, phase_max;
    tsr_value_map sources; /* gathered value -> gathering */
    gathering *gatherings;
    uint32_t gathering_count, gathered; /* gathered: ops made */
} phases;

static tsr_op_class class_of(MlirOperation op) {
    const tsr_op_row *row = tsr_op_row_find(op);
    return row ? row->op_class : TSR_CLASS_OTHER;
}

static bool has_vranks(MlirBlock block) {
    TSR_FOR_EACH_OP(op, block) {
        tsr_op_class found = class_of(op);
        if (found == TSR_CLASS_VRANK || found == TSR_CLASS_COLLECTIVE || found == TSR_CLASS_TAKE)
            return true;
    }
    return false;
}

/* A module that was read from a file may contain marks. */
static void drop_marks(MlirBlock block) {
    TSR_FOR_EACH_OP(op, block) mlirOperationRemoveAttributeByName(op, tsr_ref(TSR_VRANK_LOOP));
}

static bool is_token(MlirValue value) { return tsr_sr_is_token(mlirValueGetType(value)); }

static void drop_barriers(MlirBlock block) {
    TSR_FOR_EACH_OP(op, block) {
        if (class_of(op) != TSR_CLASS_BARRIER || tsr_sr_has_token(op)) continue;
        for (size_t i = 0; i < tsr_op_result_count(op); i++)
            mlirValueReplaceAllUsesOfWith(tsr_op_result(op, i), tsr_op_operand(op, i));
        mlirOperationDestroy(op);
    }
}

static TSR_RESULT set_timing(phases *t, MlirValue value, timing is) {
    t->timings[t->count] = is;
    if (!tsr_value_map_set(&t->numbers, t->arena, value, t->count++))
        FAIL(t->ctx, TSR_MEMORY, "no memory to order @%s", tsr_op_symbol(t->func));
    return TSR_SUCCESS;
}

static TSR_RESULT find_timing(phases *t, MlirValue value, const timing **out_timing) {
    uint32_t number = tsr_value_map_get(&t->numbers, value);
    if (number == UINT32_MAX)
        FAIL(t->ctx, TSR_INTERNAL, "@%s: unknown value", tsr_op_symbol(t->func));
    *out_timing = &t->timings[number];
    return TSR_SUCCESS;
}

/* The latest timing of the operands. */
static TSR_RESULT read_operands(phases *t, MlirOperation op, timing *out_latest) {
    timing latest = {.ready = true};
    for (size_t i = 0; i < tsr_op_operand_count(op); i++) {
        const timing *is = NULL;
        TRY(t->ctx, find_timing(t, tsr_op_operand(op, i), &is));
        latest.vrank = latest.vrank || is->vrank;
        if (is->stage > latest.stage) latest = (timing){latest.vrank, is->stage, true};
        if (is->stage == latest.stage) latest.ready = latest.ready && (!is->vrank || is->ready);
    }
    *out_latest = latest;
    return TSR_SUCCESS;
}

static void add_phase(phases *t, MlirOperation op, uint32_t phase) {
    t->ops[t->op_count] = op;
    t->phase[t->op_count++] = phase;
    if (phase > t->phase_max && phase != AT_END) t->phase_max = phase;
}

/* Such an op runs before the first loop that begins when all operands of the op are available. */
static TSR_RESULT read_token_op(phases *t, MlirOperation op) {
    bool passes = tsr_op_is(op, TSR_SR_BARRIER);
    const timing *is = NULL;
    uint32_t stage = 0;
    for (size_t i = 0; i < tsr_op_operand_count(op); i++) {
        TRY(t->ctx, find_timing(t, tsr_op_operand(op, i), &is));
        uint32_t over = is->stage + (is->vrank && !is->ready);
        if (over > stage) stage = over;
    }
    add_phase(t, op, tsr_op_is(op, TSR_ASYNC_AWAIT) ? AT_END : 2 * stage);
    for (size_t i = 0; i < tsr_op_result_count(op); i++) {
        MlirValue result = tsr_op_result(op, i);
        timing made = {.stage = stage, .ready = true};
        if (passes && !is_token(result)) {
            TRY(t->ctx, find_timing(t, tsr_op_operand(op, i), &is));
            made.vrank = is->vrank;
        }
        TRY(t->ctx, set_timing(t, result, made));
    }
    return TSR_SUCCESS;
}

/* ---- gathering where it is read ---- */

static bool is_read_by_calls(MlirValue value) {
    for (MlirOpOperand use = mlirValueGetFirstUse(value); !mlirOpOperandIsNull(use);
         use = mlirOpOperandGetNextUse(use))
        if (!tsr_op_is(mlirOpOperandGetOwner(use), TSR_SCHED_CALL)) return false;
    return tsr_value_is_used(value);
}

static bool gathers_tensor(MlirOperation op) {
    if (!tsr_op_is(op, TSR_SR_VRANK_ALL_GATHER)) return false;
    MlirOperation part = tsr_value_owner(tsr_op_operand(op, 0));
    if (!tsr_op_is(part, TSR_SR_VRANK_PART)) return false;
    MlirOperation source = tsr_value_owner(tsr_op_operand(part, 0));
    return !mlirOperationIsNull(source) && class_of(source) == TSR_CLASS_SOURCE &&
           tsr_op_has(source, "name") && is_read_by_calls(tsr_op_result(op, 0));
}

static uint64_t size_of(MlirValue value) {
    tsr_type type;
    uint64_t size = 0;
    bool fits = tsr_value_type(value, &type) && tsr_type_is_static(&type) &&
                tsr_shape_size(&type.shape, type.dtype, &size);
    return fits ? size : 0;
}

static TSR_RESULT find_gatherings(phases *t, MlirBlock block) {
    uint64_t all = 0;
    TSR_FOR_EACH_OP(op, block)
    if (gathers_tensor(op)) all += size_of(tsr_op_result(op, 0));
    TSR_FOR_EACH_OP(op, block) {
        if (!gathers_tensor(op) || size_of(tsr_op_result(op, 0)) < all / HOISTED_SHARE) continue;
        t->gatherings[t->gathering_count] = (gathering){.original = op};
        if (!tsr_value_map_set(&t->sources, t->arena, tsr_op_result(op, 0), t->gathering_count++))
            FAIL(t->ctx, TSR_MEMORY, "no memory to order @%s", tsr_op_symbol(t->func));
    }
    return TSR_SUCCESS;
}

static bool is_gathered_later(const phases *t, MlirOperation op) {
    return tsr_op_result_count(op) == 1 &&
           tsr_value_map_get(&t->sources, tsr_op_result(op, 0)) != UINT32_MAX;
}

/* Gathers the tensors of t->sources that the call reads right before it, and replaces its operands.
 */
static void gather_for(phases *t, MlirOperation call, uint32_t phase) {
    uint32_t read[TSR_PROGRAM_ARGUMENTS_MAX], count = 0;
    for (size_t i = 0; i < tsr_op_operand_count(call); i++) {
        uint32_t number = tsr_value_map_get(&t->sources, tsr_op_operand(call, i));
        if (number == UINT32_MAX) continue;
        gathering *g = &t->gatherings[number];
        if (!g->made || g->phase != phase || g->seen != t->gathered) {
            MlirOperation copy = mlirOperationClone(g->original);
            mlirBlockInsertOwnedOperationBefore(mlirOperationGetBlock(call), call, copy);
            add_phase(t, copy, phase);
            *g = (gathering){g->original, tsr_op_result(copy, 0), phase, ++t->gathered, true};
        }
        mlirOperationSetOperand(call, (intptr_t)i, g->now);
        if (count < TSR_PROGRAM_ARGUMENTS_MAX) read[count++] = number;
    }
    for (uint32_t i = 0; i < count; i++) t->gatherings[read[i]].seen = t->gathered;
}

static bool views_kernel(MlirOperation view) {
    MlirOperation from = view;
    while (!mlirOperationIsNull(from) && tsr_op_is_view(from))
        from = tsr_value_owner(tsr_op_operand(from, 0));
    return !mlirOperationIsNull(from) && tsr_op_is(from, TSR_SCHED_CALL);
}

static TSR_RESULT read_op(phases *t, MlirOperation op) {
    tsr_op_class is = class_of(op);
    if (tsr_sr_has_token(op)) return read_token_op(t, op);
    if (tsr_op_is_view(op) && !views_kernel(op))
        FAIL(t->ctx, TSR_COMPILE,
             "@%s: a view of a value that no kernel computes, in an entry with virtual ranks; "
             "expected a kernel",
             tsr_op_symbol(t->func));
    timing made = {.vrank = true, .ready = true};
    bool sums = is == TSR_CLASS_COLLECTIVE;
    if (is != TSR_CLASS_VRANK) TRY(t->ctx, read_operands(t, op, &made));
    if (is_gathered_later(t, op)) {
        made = (timing){.ready = true};
    } else if (tsr_op_is_view(op)) { /* it stays with the kernel whose result it is */
        add_phase(t, op, 2 * made.stage + (made.vrank && !made.ready));
    } else if (tsr_op_is(op, TSR_SCHED_CALL) || sums) {
        gather_for(t, op, 2 * made.stage + (made.vrank || sums));
        add_phase(t, op, 2 * made.stage + (made.vrank || sums));
        made.ready = false;
        if (sums) made = (timing){.stage = made.stage + 1};
    } else if (is == TSR_CLASS_TAKE || is == TSR_CLASS_JOIN) {
        uint32_t stage = made.stage + !made.ready; /* before this loop */
        add_phase(t, op, 2 * stage);
        made = (timing){.vrank = is == TSR_CLASS_TAKE, .stage = stage, .ready = true};
    } else if (is != TSR_CLASS_VRANK && made.vrank)
        FAIL(t->ctx, TSR_COMPILE, "@%s: %s of a value that differs between virtual ranks",
             tsr_op_symbol(t->func), tsr_op_name(op));
    for (size_t i = 0; i < tsr_op_result_count(op); i++)
        TRY(t->ctx, set_timing(t, tsr_op_result(op, i), made));
    return TSR_SUCCESS;
}

static bool is_sink(MlirOperation op) {
    return tsr_op_is(op, TSR_GRAPH_ASSIGN) || tsr_op_is(op, TSR_GRAPH_VERIFY_NUMERICS) ||
           tsr_op_is(op, TSR_FUNC_RETURN);
}

/* Moves awaits after all loops. */
static void move_awaits(phases *t) {
    uint32_t last = t->phase_max + t->phase_max % 2;
    for (uint32_t i = 0; i < t->op_count; i++)
        if (t->phase[i] == AT_END) t->phase[i] = t->phase_max = last;
}

/* Sorts by phase; ops of one phase keep their order. */
static TSR_RESULT move_ops(phases *t, MlirBlock block) {
    move_awaits(t);
    MlirOperation sink = mlirBlockGetFirstOperation(block);
    uint32_t *first = TSR_NEW(t->arena, uint32_t, (size_t)t->phase_max + 2);
    uint32_t *order = TSR_NEW(t->arena, uint32_t, (size_t)t->op_count + 1);
    if (!first || !order)
        FAIL(t->ctx, TSR_MEMORY, "no memory to order @%s", tsr_op_symbol(t->func));
    while (!is_sink(sink)) sink = mlirOperationGetNextInBlock(sink);
    for (uint32_t i = 0; i < t->op_count; i++) first[t->phase[i] + 1]++;
    for (uint32_t phase = 0; phase < t->phase_max; phase++) first[phase + 1] += first[phase];
    for (uint32_t i = 0; i < t->op_count; i++) order[first[t->phase[i]]++] = i;
    for (uint32_t k = 0; k < t->op_count; k++) {
        MlirOperation op = t->ops[order[k]];
        uint32_t phase = t->phase[order[k]];
        mlirOperationMoveBefore(op, sink);
        if (phase % 2 == 0) continue;
        tsr_op_set(op, TSR_VRANK_LOOP, tsr_attr_make_i64(mlirOperationGetContext(op), phase / 2));
    }
    for (uint32_t i = 0; i < t->gathering_count; i++)
        mlirOperationDestroy(t->gatherings[i].original);
    return TSR_SUCCESS;
}

tsr_result tsr_host_order_vranks(tsr_ctx *ctx, MlirOperation func, tsr_arena *arena) {
    MlirBlock block = tsr_op_body(func);
    phases t = {.ctx = ctx, .arena = arena, .func = func};
    size_t values = (size_t)mlirBlockGetNumArguments(block), ops = 0;
    drop_marks(block);
    if (!has_vranks(block)) return TSR_SUCCESS;
    drop_barriers(block);
    TSR_FOR_EACH_OP(op, block) {
        values += tsr_op_result_count(op);
        ops += 1 + tsr_op_operand_count(op); /* each may be gathered */
    }
    t.gatherings = TSR_NEW(arena, gathering, ops + 1);
    t.timings = TSR_NEW(arena, timing, values + 1);
    t.ops = TSR_NEW(arena, MlirOperation, ops + 1);
    t.phase = TSR_NEW(arena, uint32_t, ops + 1);
    if (!t.gatherings || !t.timings || !t.ops || !t.phase)
        FAIL(ctx, TSR_MEMORY, "no memory to order @%s", tsr_op_symbol(func));
    for (intptr_t i = 0; i < mlirBlockGetNumArguments(block); i++)
        TRY(ctx, set_timing(&t, mlirBlockGetArgument(block, i), (timing){0}));
    TRY(ctx, find_gatherings(&t, block));
    TSR_FOR_EACH_OP(op, block) TRY(ctx, read_op(&t, op));
    return move_ops(&t, block);
}
