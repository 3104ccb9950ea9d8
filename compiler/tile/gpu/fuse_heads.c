/* SPDX-License-Identifier: Apache-2.0
 *
 * Moves the ops that slice, transpose and concatenate heads into the groups of attention and of its
 * gradient:
 *
 *     slice [B, S, W] -> [B, S, H D], reshape -> [B, S, H, D], transpose -> [B, H, S, D], attention
 *     attention, transpose -> [B, S, H, D]
 *     gradients, transposes, reshapes, concat -> [B, S, W]
 *
 * are kernels, except for the reshapes; this pass moves the ops around attention into its group,
 * which is then one kernel. A group is changed only if all its calls have the same surroundings. If
 * another op still needs a result in its old layout, the result is transposed back: the gradient's
 * group then absorbs this transpose.
 */
#include "compiler/ir/targets/target.h"
#include "compiler/tile/gpu/attention.h"
#include "compiler/tile/gpu/attention_grad.h"
#include "compiler/tile/gpu/heads.h"
#include "compiler/tile/gpu/layout.h"

#include <stdio.h>
#include <string.h>

enum {
    OPERANDS_MAX = 6 + TSR_ATTENTION_SAMPLES,
    RESULTS_MAX = 3,
    ATTRIBUTES_MAX = 16,
};

typedef enum how {
    AS_IT_IS,
    TRANSPOSED, /* [B, S, H, D] */
    SLICED,     /* an operand: columns of [B, S, W] */
    JOINED,     /* a result: columns of one */
} how;

typedef struct surroundings {
    how operands[OPERANDS_MAX], results[RESULTS_MAX];
    MlirOperation slices[OPERANDS_MAX]; /* slice ops in the groups that the calls name */
    MlirValue values[OPERANDS_MAX];     /* the new operands of the call */
    uint32_t same_as[OPERANDS_MAX];     /* the first operand with the same value */
    uint32_t operand_count, result_count;
    uint32_t order[RESULTS_MAX]; /* JOINED: the result that is operand i of the concat */
    MlirOperation concat;        /* JOINED: the call of the concat */
} surroundings;

typedef struct fuser {
    tsr_ctx *ctx;
    tsr_arena *arena;
    MlirModule module;
    MlirOperation func; /* the group: a tsched.func */
    MlirOperation root;
    MlirOperation *calls;
    surroundings *around; /* the surroundings of each call */
    size_t count;
} fuser;

static tsr_result refuse_memory(const fuser *j) {
    FAIL(j->ctx, TSR_MEMORY, "no memory to lower '%s'", tsr_op_symbol(j->func));
}

/* ---- callees --------------------------------------------------------------------------------- */

/* The op that moves elements and is the only op of the group that `call` calls; null for other
 * calls. */
static MlirOperation moved_by(const fuser *j, MlirOperation call) {
    MlirOperation none = {NULL};
    if (!tsr_op_is(call, TSR_SCHED_CALL)) return none;
    const char *callee = tsr_op_string(call, "callee");
    MlirOperation func = callee ? tsr_module_find(j->module, callee) : none;
    if (!tsr_op_is(func, TSR_SCHED_FUNC)) return none;
    MlirOperation first = mlirBlockGetFirstOperation(tsr_op_body(func));
    MlirOperation second = mlirOperationGetNextInBlock(first);
    return tsr_gpu_is_move(first) && tsr_op_is(second, TSR_SCHED_RETURN) ? first : none;
}

static MlirOperation maker_of(MlirValue value) {
    return mlirValueIsABlockArgument(value) ? (MlirOperation){NULL} : tsr_value_owner(value);
}

/* The only op that uses the value, or null. */
static MlirOperation only_user(MlirValue value) {
    MlirOpOperand use = mlirValueGetFirstUse(value);
    if (mlirOpOperandIsNull(use) || !mlirOpOperandIsNull(mlirOpOperandGetNextUse(use)))
        return (MlirOperation){NULL};
    return mlirOpOperandGetOwner(use);
}

/* ---- surroundings ---------------------------------------------------------------------------- */

static void find_operand(const fuser *j, surroundings *s, uint32_t index, MlirValue value) {
    MlirOperation transpose = maker_of(value);
    s->operands[index] = AS_IT_IS;
    s->values[index] = value;
    if (!tsr_gpu_is_heads_transpose(moved_by(j, transpose))) return;
    s->operands[index] = TRANSPOSED;
    s->values[index] = tsr_op_operand(transpose, 0);
    MlirOperation reshape = maker_of(s->values[index]);
    if (!tsr_op_is(reshape, TSR_GRAPH_RESHAPE)) return;
    MlirOperation call = maker_of(tsr_op_operand(reshape, 0)), slice = moved_by(j, call);
    int64_t first = 0;
    if (mlirOperationIsNull(slice) || !tsr_gpu_slice_columns(slice, &first)) return;
    s->operands[index] = SLICED;
    s->slices[index] = slice;
    s->values[index] = tsr_op_operand(call, 0);
}

/* Finds the concat along columns that reads all three results, each through its transpose and a
 * reshape. Returns false if another op reads one of them. */
static bool find_concat(const fuser *j, surroundings *s, MlirOperation call) {
    for (uint32_t r = 0; r < RESULTS_MAX; r++) {
        MlirOperation transpose = only_user(tsr_op_result(call, r));
        if (!tsr_gpu_is_heads_transpose(moved_by(j, transpose))) return false;
        MlirOperation reshape = only_user(tsr_op_result(transpose, 0));
        if (!tsr_op_is(reshape, TSR_GRAPH_RESHAPE)) return false;
        MlirValue part = tsr_op_result(reshape, 0);
        MlirOperation joins = only_user(part), concat = moved_by(j, joins);
        int64_t axis = 0;
        if (!tsr_op_is(concat, TSR_GRAPH_CONCAT) || tsr_op_operand_count(joins) != RESULTS_MAX ||
            !tsr_op_i64(concat, "axis", &axis) || axis != 2 ||
            (r && !mlirOperationEqual(joins, s->concat)))
            return false;
        s->concat = joins;
        for (uint32_t i = 0; i < RESULTS_MAX; i++)
            if (mlirValueEqual(tsr_op_operand(joins, i), part)) s->order[i] = r;
    }
    return true;
}

/* True if some use transposes the value. */
static bool is_transposed(const fuser *j, MlirValue value) {
    for (MlirOpOperand use = mlirValueGetFirstUse(value); !mlirOpOperandIsNull(use);
         use = mlirOpOperandGetNextUse(use))
        if (tsr_gpu_is_heads_transpose(moved_by(j, mlirOpOperandGetOwner(use)))) return true;
    return false;
}

static void find_surroundings(const fuser *j, surroundings *s, MlirOperation call) {
    s->operand_count = (uint32_t)tsr_op_operand_count(call);
    s->result_count = (uint32_t)tsr_op_result_count(call);
    for (uint32_t i = 0; i < s->operand_count; i++) {
        find_operand(j, s, i, tsr_op_operand(call, i));
        s->same_as[i] = i;
        for (uint32_t k = i; k-- > 0;)
            if (mlirValueEqual(s->values[k], s->values[i])) s->same_as[i] = k;
    }
    bool joined = s->result_count == RESULTS_MAX && find_concat(j, s, call);
    for (uint32_t r = 0; r < s->result_count; r++)
        s->results[r] = joined                                     ? JOINED
                        : is_transposed(j, tsr_op_result(call, r)) ? TRANSPOSED
                                                                   : AS_IT_IS;
    if (!joined) s->concat = (MlirOperation){NULL};
}

static bool are_equal(const surroundings *a, const surroundings *b) {
    for (uint32_t i = 0; i < a->operand_count; i++) {
        int64_t x = 0, y = 0;
        if (a->operands[i] != b->operands[i] || a->same_as[i] != b->same_as[i] ||
            !mlirTypeEqual(mlirValueGetType(a->values[i]), mlirValueGetType(b->values[i])))
            return false;
        if (a->operands[i] == SLICED && (!tsr_gpu_slice_columns(a->slices[i], &x) ||
                                         !tsr_gpu_slice_columns(b->slices[i], &y) || x != y))
            return false;
    }
    return memcmp(a->results, b->results, sizeof a->results) == 0 &&
           memcmp(a->order, b->order, sizeof a->order) == 0;
}

static bool is_some(const surroundings *s) {
    for (uint32_t i = 0; i < s->operand_count; i++)
        if (s->operands[i] != AS_IT_IS) return true;
    for (uint32_t r = 0; r < s->result_count; r++)
        if (s->results[r] != AS_IT_IS) return true;
    return false;
}

/* ---- the group ------------------------------------------------------------------------------- */

/* Slices the group's new argument if the operand was a slice. */
static MlirValue build_operand(tsr_builder *b, const surroundings *s, uint32_t index,
                               MlirValue argument) {
    if (s->operands[index] == AS_IT_IS) return argument;
    if (s->operands[index] == SLICED) {
        MlirOperation slice = mlirOperationClone(s->slices[index]);
        mlirOperationSetOperand(slice, 0, argument);
        mlirBlockAppendOwnedOperation(b->block, slice);
        argument = tsr_op_result(slice, 0);
    }
    return argument;
}

static MlirValue build_heads(tsr_builder *b, MlirOperation root, const surroundings *s,
                             uint32_t index, MlirValue argument) {
    MlirValue value = build_operand(b, s, index, argument);
    if (s->operands[index] == AS_IT_IS) return value;
    if (s->operands[index] == SLICED) {
        MlirType heads = mlirValueGetType(tsr_op_operand(root, index));
        value = tsr_build_value(b, "tessera.reshape", &value, 1,
                                tsr_gpu_transposed_type(heads, TSR_GPU_HEADS_DIM), NULL);
    }
    return tsr_gpu_build_transpose(b, value, TSR_GPU_HEADS_DIM);
}

static size_t build_results(tsr_builder *b, MlirOperation root, const surroundings *s,
                            MlirValue *out_values) {
    for (uint32_t r = 0; r < s->result_count; r++) {
        out_values[r] = tsr_op_result(root, r);
        if (s->results[r] != AS_IT_IS)
            out_values[r] = tsr_gpu_build_transpose(b, out_values[r], TSR_GPU_HEADS_DIM);
    }
    if (mlirOperationIsNull(s->concat)) return s->result_count;
    MlirValue parts[RESULTS_MAX];
    for (uint32_t i = 0; i < RESULTS_MAX; i++)
        parts[i] = tsr_build_value(b, "tessera.reshape", &out_values[s->order[i]], 1,
                                   mlirValueGetType(tsr_op_operand(s->concat, i)), NULL);
    const tsr_attr axis[] = {{"axis", tsr_attr_make_i64(b->context, 2)}, {0}};
    out_values[0] = tsr_build_value(b, "tessera.concat", parts, RESULTS_MAX,
                                    mlirValueGetType(tsr_op_result(s->concat, 0)), axis);
    return 1;
}

static size_t copy_attributes(MlirOperation from, bool discardable_alone, const char *but,
                              tsr_attr *out_attrs) {
    size_t count = 0;
    intptr_t all = discardable_alone ? mlirOperationGetNumDiscardableAttributes(from)
                                     : mlirOperationGetNumAttributes(from);
    for (intptr_t i = 0; i < all && count < ATTRIBUTES_MAX; i++) {
        MlirNamedAttribute named = discardable_alone ? mlirOperationGetDiscardableAttribute(from, i)
                                                     : mlirOperationGetAttribute(from, i);
        const char *name = mlirIdentifierStr(named.name).data;
        if (strcmp(name, but) != 0) out_attrs[count++] = (tsr_attr){name, named.attribute};
    }
    return count;
}

/* Replaces the group by the new one, at the same position. */
static void rewrite_group(fuser *j) {
    const surroundings *s = &j->around[0];
    MlirLocation location = mlirOperationGetLocation(j->func);
    MlirContext context = mlirOperationGetContext(j->func);
    MlirValue operands[OPERANDS_MAX], results[RESULTS_MAX];
    MlirType inputs[OPERANDS_MAX], outputs[RESULTS_MAX];
    tsr_attr attrs[ATTRIBUTES_MAX + 1];
    MlirBlock block = mlirBlockCreate(0, NULL, NULL);
    MlirRegion region = mlirRegionCreate();
    mlirRegionAppendOwnedBlock(region, block);
    tsr_builder inside = tsr_builder_at_end(block, location);
    MlirValue arguments[OPERANDS_MAX] = {{NULL}};
    size_t input_count = 0;
    for (uint32_t i = 0; i < s->operand_count; i++) {
        if (s->same_as[i] != i) {
            arguments[i] = arguments[s->same_as[i]];
            continue;
        }
        inputs[input_count++] = mlirValueGetType(s->values[i]);
        arguments[i] = mlirBlockAddArgument(block, mlirValueGetType(s->values[i]), location);
    }
    for (uint32_t i = 0; i < s->operand_count; i++)
        operands[i] = build_heads(&inside, j->root, s, i, arguments[i]);
    MlirOperation root = mlirOperationClone(j->root);
    for (uint32_t i = 0; i < s->operand_count; i++)
        mlirOperationSetOperand(root, (intptr_t)i, operands[i]);
    mlirBlockAppendOwnedOperation(block, root);
    size_t output_count = build_results(&inside, root, s, results);
    for (size_t i = 0; i < output_count; i++) outputs[i] = mlirValueGetType(results[i]);
    tsr_build(&inside, &(tsr_op_desc){.name = "tsched.return",
                                      .operand_count = output_count,
                                      .operands = results});
    size_t attr_count = copy_attributes(j->func, false, "function_type", attrs);
    MlirType type = mlirFunctionTypeGet(context, (intptr_t)input_count, inputs,
                                        (intptr_t)output_count, outputs);
    attrs[attr_count++] = (tsr_attr){"function_type", tsr_attr_make_type(type)};
    tsr_builder at = tsr_builder_before(j->func);
    MlirOperation made = tsr_build(&at, &(tsr_op_desc){.name = "tsched.func",
                                                       .attr_count = attr_count,
                                                       .attrs = attrs,
                                                       .region_count = 1,
                                                       .regions = &region});
    mlirOperationDestroy(j->func);
    j->func = made;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static MlirOperation build_call(tsr_builder *at, MlirOperation like, const char *callee,
                                MlirValue *operands, size_t operand_count, MlirType *results,
                                size_t result_count) {
    tsr_attr attrs[ATTRIBUTES_MAX + 1];
    size_t count = copy_attributes(like, true, "callee", attrs);
    attrs[count++] = (tsr_attr){"callee", tsr_attr_make_symbol(at->context, callee)};
    return tsr_build(at, &(tsr_op_desc){.name = "tsched.call",
                                        .operand_count = operand_count,
                                        .operands = operands,
                                        .result_count = result_count,
                                        .results = results,
                                        .attr_count = count,
                                        .attrs = attrs});
}

/* Replaces the uses of a result that is transposed now: the results of its transposes become the
 * new result, all other uses get it transposed back. */
static tsr_result replace_transposed(fuser *j, tsr_builder *at, MlirOperation call,
                                     MlirValue before, MlirValue now) {
    for (MlirOpOperand use = mlirValueGetFirstUse(before); !mlirOpOperandIsNull(use);) {
        MlirOperation user = mlirOpOperandGetOwner(use);
        use = mlirOpOperandGetNextUse(use);
        if (!tsr_gpu_is_heads_transpose(moved_by(j, user))) continue;
        mlirValueReplaceAllUsesOfWith(tsr_op_result(user, 0), now);
        mlirOperationDestroy(user);
    }
    if (!tsr_value_is_used(before)) return TSR_SUCCESS;
    MlirType type = mlirValueGetType(before);
    tsr_builder end = tsr_builder_at_end(mlirModuleGetBody(j->module), at->location);
    MlirOperation transposing =
        tsr_gpu_find_transposing(&end, j->module, j->arena, tsr_op_symbol(j->func), "transpose",
                                 mlirValueGetType(now), TSR_GPU_HEADS_DIM);
    if (mlirOperationIsNull(transposing)) return refuse_memory(j);
    MlirOperation back = build_call(at, call, tsr_op_symbol(transposing), &now, 1, &type, 1);
    mlirValueReplaceAllUsesOfWith(before, tsr_op_result(back, 0));
    return TSR_SUCCESS;
}

static tsr_result rewrite_call(fuser *j, size_t index) {
    const surroundings *s = &j->around[index];
    MlirOperation call = j->calls[index];
    MlirValue operands[OPERANDS_MAX];
    MlirType results[RESULTS_MAX];
    MlirOperation end = mlirBlockGetTerminator(tsr_op_body(j->func));
    size_t operand_count = 0, result_count = tsr_op_operand_count(end);
    for (uint32_t i = 0; i < s->operand_count; i++)
        if (s->same_as[i] == i) operands[operand_count++] = s->values[i];
    for (size_t i = 0; i < result_count; i++) results[i] = mlirValueGetType(tsr_op_operand(end, i));
    tsr_builder at = tsr_builder_before(call);
    MlirOperation made = build_call(&at, call, tsr_op_symbol(j->func), operands, operand_count,
                                    results, result_count);
    if (!mlirOperationIsNull(s->concat)) {
        mlirValueReplaceAllUsesOfWith(tsr_op_result(s->concat, 0), tsr_op_result(made, 0));
        return TSR_SUCCESS; /* the old call and its moves are dead */
    }
    for (uint32_t r = 0; r < s->result_count; r++) {
        MlirValue before = tsr_op_result(call, r), now = tsr_op_result(made, r);
        if (s->results[r] == TRANSPOSED)
            TRY(j->ctx, replace_transposed(j, &at, call, before, now));
        else
            mlirValueReplaceAllUsesOfWith(before, now);
    }
    return TSR_SUCCESS;
}

/* ---- the pass -------------------------------------------------------------------------------- */

typedef void (*visit)(fuser *j, MlirOperation op);

static void visit_ops(fuser *j, visit visitor) {
    TSR_FOR_EACH_OP(entry, mlirModuleGetBody(j->module)) {
        if (!tsr_op_is(entry, TSR_FUNC_FUNC) || !tsr_op_has_body(entry)) continue;
        TSR_FOR_EACH_OP(op, tsr_op_body(entry)) visitor(j, op);
    }
}

static bool is_call_of(MlirOperation op, MlirOperation func) {
    const char *callee = tsr_op_is(op, TSR_SCHED_CALL) ? tsr_op_string(op, "callee") : NULL;
    return callee && strcmp(callee, tsr_op_symbol(func)) == 0;
}

static void count_call(fuser *j, MlirOperation op) { j->count += is_call_of(op, j->func); }

static void note_call(fuser *j, MlirOperation op) {
    if (is_call_of(op, j->func)) j->calls[j->count++] = op;
}

static bool is_dead(MlirOperation op) {
    for (size_t i = 0; i < tsr_op_result_count(op); i++)
        if (tsr_value_is_used(tsr_op_result(op, i))) return false;
    return true;
}

/* Removes unused moves and unused calls of the group itself. Other calls stay, because they may
 * report faults. */
static void drop_dead(fuser *j, MlirOperation op) {
    bool moves = tsr_op_is(op, TSR_GRAPH_RESHAPE) || !mlirOperationIsNull(moved_by(j, op));
    if ((!moves && !is_call_of(op, j->func)) || !is_dead(op)) return;
    mlirOperationDestroy(op);
    j->count++;
}

static tsr_result fuse_group(fuser *j) {
    j->count = 0;
    visit_ops(j, count_call);
    if (!j->count) return TSR_SUCCESS;
    j->calls = TSR_NEW(j->arena, MlirOperation, j->count);
    j->around = TSR_NEW(j->arena, surroundings, j->count);
    if (!j->calls || !j->around) return refuse_memory(j);
    j->count = 0;
    visit_ops(j, note_call);
    for (size_t i = 0; i < j->count; i++) find_surroundings(j, &j->around[i], j->calls[i]);
    for (size_t i = 1; i < j->count; i++)
        if (!are_equal(&j->around[0], &j->around[i])) return TSR_SUCCESS;
    if (!is_some(&j->around[0])) return TSR_SUCCESS;
    rewrite_group(j);
    for (size_t i = 0; i < j->count; i++) TRY(j->ctx, rewrite_call(j, i));
    do {
        j->count = 0;
        visit_ops(j, drop_dead);
    } while (j->count); /* operands become unused only after their users are removed */
    return TSR_SUCCESS;
}

/* Tells whether the group's root is the op `id` and a kernel of this folder computes it. */
static tsr_result is_joinable(fuser *j, const tsr_target *target, MlirOperation func, tsr_op id,
                              bool *out_joinable) {
    MlirOperation root = mlirBlockGetFirstOperation(tsr_op_body(func));
    *out_joinable = false;
    if (!tsr_op_is(root, id) || tsr_op_operand_count(root) > OPERANDS_MAX) return TSR_SUCCESS;
    for (size_t i = 0; i < tsr_op_operand_count(root); i++) {
        MlirValue operand = tsr_op_operand(root, i);
        if (!mlirValueIsABlockArgument(operand) ||
            mlirBlockArgumentGetArgNumber(operand) != (intptr_t)i)
            return TSR_SUCCESS;
    }
    MlirOperation end = mlirOperationGetNextInBlock(root);
    if (!tsr_op_is(end, TSR_SCHED_RETURN) ||
        tsr_op_operand_count(end) != tsr_op_result_count(root) ||
        tsr_op_result_count(root) > RESULTS_MAX)
        return TSR_SUCCESS;
    for (size_t i = 0; i < tsr_op_operand_count(end); i++)
        if (!mlirValueEqual(tsr_op_operand(end, i), tsr_op_result(root, i))) return TSR_SUCCESS;
    tsr_tile_group group = {.ctx = j->ctx,
                            .arena = j->arena,
                            .name = tsr_op_symbol(func),
                            .op = func,
                            .body = tsr_op_body(func),
                            .is_native = true};
    group.b.target = target;
    TRY(j->ctx, tsr_tile_group_read(&group));
    j->func = func;
    j->root = root;
    return id == TSR_GRAPH_ATTENTION ? tsr_tile_can_attend(&group, out_joinable)
                                     : tsr_tile_can_attend_grad(&group, out_joinable);
}

static void drop_unused_groups(fuser *j) {
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(j->module)) {
        if (!tsr_op_is(func, TSR_SCHED_FUNC) ||
            !tsr_gpu_is_move(mlirBlockGetFirstOperation(tsr_op_body(func))))
            continue;
        j->func = func;
        j->count = 0;
        visit_ops(j, count_call);
        if (!j->count) mlirOperationDestroy(func);
    }
}

tsr_result tsr_gpu_fuse_heads(tsr_ctx *ctx, const tsr_target *target, MlirModule module,
                              tsr_arena *arena) {
    static const tsr_op roots[] = {TSR_GRAPH_ATTENTION, TSR_GRAPH_ATTENTION_GRAD};
    fuser j = {.ctx = ctx, .arena = arena, .module = module};
    bool some = false;
    for (int i = 0; i < 2; i++) TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
            bool joinable = false;
            if (!tsr_op_is(func, TSR_SCHED_FUNC)) continue;
            TRY(ctx, is_joinable(&j, target, func, roots[i], &joinable));
            if (!joinable) continue;
            TRY(ctx, fuse_group(&j));
            some = true;
        }
    if (some) drop_unused_groups(&j);
    return TSR_SUCCESS;
}
