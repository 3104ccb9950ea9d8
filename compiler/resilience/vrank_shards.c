/* SPDX-License-Identifier: Apache-2.0
 *
 * Pass tessera-vrank-shards, after tessera-optimizer-shard and before tessera-local-collectives: if
 * the positions of an axis are the virtual ranks, the steps of all positions become one step, which
 * each virtual rank runs on its parts. Ranks then store the parts of their virtual ranks and
 * exchange data as the ZeRO stage requires. Because steps are elementwise, the bits equal those of
 * the whole step.
 *
 *   shard_slice %t of a tensor           vrank_part %t
 *   shard_slice (all_reduce %g)          vrank_part %g {tessera_sr.summed}
 *   reduce_scatter %g                    vrank_part %g
 *   all_gather of the steps' results     vrank_all_gather
 *   assemble                             vrank_assemble
 *   all_gather of slices (zero3)         vrank_all_gather (vrank_part %t)
 *   squares %g of the gradient           squares (vrank_part %g)
 *
 * Entries that do not train also gather such a parameter, so that no rank stores it whole.
 */
#include "compiler/graph/emit.h"
#include "compiler/resilience/passes.h"
#include "compiler/resilience/resilience.h"

#include <string.h>

enum { OPERANDS_MAX = 8 };

static bool is_step(MlirOperation op) {
    tsr_op id = tsr_op_of(op);
    return id == TSR_GRAPH_ADAMW || id == TSR_GRAPH_SGD;
}

static bool is_slice(MlirOperation op) {
    return tsr_op_is(op, TSR_SR_SHARD_SLICE) || tsr_op_is(op, TSR_SR_REDUCE_SCATTER);
}

static MlirOperation owner_of(MlirOperation op, size_t operand) {
    return tsr_value_owner(tsr_op_operand(op, operand));
}

/* True if the axis of a slice divides the batch and has as many positions as there are virtual
 * ranks. */
static bool is_over_vranks(MlirModule module, MlirOperation slice, uint64_t vranks) {
    MlirAttribute mesh = tsr_op_attr(mlirModuleGetOperation(module), "tessera.mesh");
    const char *axis = tsr_op_string(slice, "axis");
    int64_t size = 0;
    if (!axis || mlirAttributeIsNull(mesh) || !mlirAttributeIsADictionary(mesh)) return false;
    MlirAttribute of = mlirDictionaryAttrGetElementByName(mesh, tsr_ref(axis));
    return !mlirAttributeIsNull(of) && tsr_attr_i64(of, &size) && size > 0 &&
           (uint64_t)size == vranks && tsr_sr_is_batch_axis(tsr_ref(axis));
}

/* True for the slice at position 0, which has the maximum number of elements. */
static bool is_first(MlirOperation slice) {
    int64_t position = -1;
    return is_slice(slice) && tsr_op_i64(slice, "position", &position) && position == 0;
}

static MlirValue part_of(tsr_builder *b, MlirOperation slice) {
    MlirValue from = tsr_op_operand(slice, 0);
    MlirOperation sum = tsr_value_owner(from);
    bool summed = tsr_op_is(sum, TSR_SR_ALL_REDUCE) && tsr_op_operand_count(sum) == 1;
    if (summed) from = tsr_op_operand(sum, 0);
    const tsr_attr attrs[] = {
        {TSR_SR_SUMMED, summed ? mlirUnitAttrGet(b->context) : mlirAttributeGetNull()}, {0}};
    return tsr_build_value(b, "tessera_sr.vrank_part", &from, 1,
                           mlirValueGetType(tsr_op_result(slice, 0)), summed ? attrs : NULL);
}

static bool is_ours(MlirOperation op) {
    return is_step(op) || is_slice(op) || tsr_op_is(op, TSR_SR_ALL_REDUCE);
}

/* Erases a step, slice or sum that is no longer used, and its operands if they become unused:
 * chains of at most three ops. */
static void destroy_unused(MlirOperation op) {
    MlirOperation from[OPERANDS_MAX];
    size_t count = tsr_op_operand_count(op);
    for (size_t i = 0; i < tsr_op_result_count(op); i++)
        if (tsr_value_is_used(tsr_op_result(op, i))) return;
    TSR_ASSERT(count <= OPERANDS_MAX);
    for (size_t i = 0; i < count; i++) {
        from[i] = owner_of(op, i);
        for (size_t k = 0; k < i; k++)
            if (mlirOperationEqual(from[i], from[k])) from[k] = (MlirOperation){NULL};
    }
    mlirOperationDestroy(op);
    for (size_t i = 0; i < count; i++)
        if (!mlirOperationIsNull(from[i]) && is_ours(from[i])) destroy_unused(from[i]);
}

/* The position of a slice, or of a step on slices; -1 for other ops. */
static int64_t position_of(MlirOperation op) {
    int64_t position = -1;
    if (is_step(op)) op = owner_of(op, 0);
    return is_slice(op) && tsr_op_i64(op, "position", &position) ? position : -1;
}

/* True if the op joins slices, or results of steps on slices, one for each position, in order. */
static bool is_join(MlirOperation op) {
    size_t count = tsr_op_operand_count(op);
    int64_t before = -1;
    if (!tsr_op_is(op, TSR_SR_ALL_GATHER) && !tsr_op_is(op, TSR_SR_ASSEMBLE)) return false;
    for (size_t i = 0; i < count; i++) {
        MlirOperation owner = owner_of(op, i);
        int64_t position = mlirOperationIsNull(owner) ? -1 : position_of(owner);
        if (position <= before) return false;
        before = position;
    }
    return count > 0 && count <= TSR_SR_POSITIONS_MAX;
}

/* Erases the join, whose result is no longer used. */
static void destroy_join(MlirOperation join) {
    MlirOperation from[TSR_SR_POSITIONS_MAX];
    size_t count = tsr_op_operand_count(join);
    TSR_ASSERT(count <= TSR_SR_POSITIONS_MAX);
    for (size_t i = 0; i < count; i++) from[i] = owner_of(join, i);
    mlirOperationDestroy(join);
    for (size_t i = 0; i < count; i++) destroy_unused(from[i]);
}

/* Returns the join of a value; null if its first use is not a join. */
static MlirOperation join_of(MlirValue value) {
    MlirOpOperand use = mlirValueGetFirstUse(value);
    MlirOperation owner =
        mlirOpOperandIsNull(use) ? (MlirOperation){NULL} : mlirOpOperandGetOwner(use);
    bool joined = !mlirOperationIsNull(owner) && is_join(owner) &&
                  mlirValueEqual(tsr_op_operand(owner, 0), value);
    return joined ? owner : (MlirOperation){NULL};
}

static bool is_joined(MlirOperation step) {
    for (size_t i = 0; i < tsr_op_result_count(step); i++)
        if (mlirOperationIsNull(join_of(tsr_op_result(step, i)))) return false;
    return true;
}

/* Replaces the steps at all positions by one step; `first` is the step at position 0. */
static void fold_step(MlirOperation first) {
    tsr_builder b = tsr_builder_before(first);
    size_t results = tsr_op_result_count(first);
    MlirOperation joins[OPERANDS_MAX];
    MlirValue operands[OPERANDS_MAX];
    TSR_ASSERT(results <= OPERANDS_MAX && tsr_op_operand_count(first) <= OPERANDS_MAX);
    for (size_t i = 0; i < tsr_op_operand_count(first); i++)
        operands[i] = is_slice(owner_of(first, i)) ? part_of(&b, owner_of(first, i))
                                                   : tsr_op_operand(first, i);
    MlirOperation step = mlirOperationClone(first);
    mlirBlockInsertOwnedOperationBefore(b.block, b.before, step);
    for (size_t i = 0; i < tsr_op_operand_count(first); i++)
        mlirOperationSetOperand(step, (intptr_t)i, operands[i]);
    for (size_t i = 0; i < results; i++) joins[i] = join_of(tsr_op_result(first, i));
    for (size_t i = 0; i < results; i++) {
        tsr_builder at = tsr_builder_before(joins[i]);
        MlirValue made = tsr_op_result(step, i), whole = tsr_op_result(joins[i], 0);
        bool gathers = tsr_op_is(joins[i], TSR_SR_ALL_GATHER);
        MlirValue next = tsr_build_value(
            &at, gathers ? "tessera_sr.vrank_all_gather" : "tessera_sr.vrank_assemble", &made, 1,
            mlirValueGetType(whole), NULL);
        mlirValueReplaceAllUsesOfWith(whole, next);
    }
    for (size_t i = 0; i < results; i++) destroy_join(joins[i]);
}

/* Replaces the gather that readers of a sliced parameter use. */
static void fold_gather(MlirOperation gather) {
    tsr_builder b = tsr_builder_before(gather);
    MlirValue part = part_of(&b, owner_of(gather, 0));
    MlirValue whole = tsr_op_result(gather, 0);
    MlirValue next =
        tsr_build_value(&b, "tessera_sr.vrank_all_gather", &part, 1, mlirValueGetType(whole), NULL);
    mlirValueReplaceAllUsesOfWith(whole, next);
    destroy_join(gather);
}

static MlirOperation find_next(MlirModule module, MlirBlock block, uint64_t vranks) {
    TSR_FOR_EACH_OP(op, block) {
        bool gathers = tsr_op_is(op, TSR_SR_ALL_GATHER) && is_join(op);
        if (!gathers && !(is_step(op) && is_joined(op))) continue;
        MlirOperation slice = owner_of(op, 0);
        if (is_first(slice) && is_over_vranks(module, slice, vranks)) return op;
    }
    return (MlirOperation){NULL};
}

/* If a step has a part of the gradient, its squares are computed from that part. */
static void fold_squares(MlirOperation squares) {
    MlirValue gradient = tsr_op_operand(squares, 0);
    for (MlirOpOperand use = mlirValueGetFirstUse(gradient); !mlirOpOperandIsNull(use);
         use = mlirOpOperandGetNextUse(use)) {
        MlirOperation part = mlirOpOperandGetOwner(use);
        if (!tsr_op_is(part, TSR_SR_VRANK_PART)) continue;
        if (!mlirOperationIsBeforeInBlock(part, squares)) mlirOperationMoveBefore(part, squares);
        mlirOperationSetOperand(squares, 0, tsr_op_result(part, 0));
        return;
    }
}

/* ---- other entries ---- */

/* True if the tensor's next value is made of parts in the training entry. */
static bool is_sharded(MlirOperation func, const char *name) {
    TSR_FOR_EACH_OP(op, tsr_op_body(func)) {
        const char *target = tsr_op_is(op, TSR_GRAPH_ASSIGN) ? tsr_op_string(op, "target") : NULL;
        if (target && strcmp(target, name) == 0)
            return tsr_op_is(owner_of(op, 0), TSR_SR_VRANK_ASSEMBLE);
    }
    return false;
}

static MlirValue find_part(MlirOperation func, const char *name) {
    TSR_FOR_EACH_OP(op, tsr_op_body(func)) {
        if (!tsr_op_is(op, TSR_SR_VRANK_PART)) continue;
        MlirOperation source = owner_of(op, 0);
        const char *of = mlirOperationIsNull(source) ? NULL : tsr_op_string(source, "name");
        if (of && strcmp(of, name) == 0) return tsr_op_result(op, 0);
    }
    return (MlirValue){NULL};
}

static bool is_read_in_parts(MlirValue whole) {
    MlirOpOperand use = mlirValueGetFirstUse(whole);
    return !mlirOpOperandIsNull(use) && tsr_op_is(mlirOpOperandGetOwner(use), TSR_SR_VRANK_PART);
}

/* Redirects reads of the tensor in `func` to the gathered value. */
static void gather_in(MlirOperation func, const char *name, MlirType part) {
    TSR_FOR_EACH_OP(op, tsr_op_body(func)) {
        const char *of = tsr_op_is(op, TSR_GRAPH_PARAM) ? tsr_op_string(op, "name") : NULL;
        if (!of || strcmp(of, name) != 0 || is_read_in_parts(tsr_op_result(op, 0))) continue;
        MlirValue whole = tsr_op_result(op, 0);
        tsr_builder b = tsr_builder_before(mlirOperationGetNextInBlock(op));
        MlirValue own = tsr_build_value(&b, "tessera_sr.vrank_part", &whole, 1, part, NULL);
        MlirValue all = tsr_build_value(&b, "tessera_sr.vrank_all_gather", &own, 1,
                                        mlirValueGetType(whole), NULL);
        MlirOperation except = tsr_value_owner(own);
        mlirValueReplaceAllUsesExcept(whole, all, 1, &except);
    }
}

static bool is_assigned(MlirOperation func) {
    TSR_FOR_EACH_OP(op, tsr_op_body(func)) {
        if (tsr_op_is(op, TSR_GRAPH_ASSIGN)) return true;
    }
    return false;
}

void tsr_sr_gather_elsewhere(MlirModule module, MlirOperation trains) {
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        bool other = tsr_op_is(func, TSR_FUNC_FUNC) && !mlirOperationEqual(func, trains);
        if (other && tsr_op_has_body(func) && is_assigned(func)) return;
    }
    TSR_FOR_EACH_OP(op, tsr_op_body(trains)) {
        const char *name = tsr_op_is(op, TSR_GRAPH_PARAM) ? tsr_op_string(op, "name") : NULL;
        if (!name || !is_sharded(trains, name)) continue;
        MlirType part = mlirValueGetType(find_part(trains, name));
        TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
            bool other = tsr_op_is(func, TSR_FUNC_FUNC) && !mlirOperationEqual(func, trains);
            if (other && tsr_op_has_body(func)) gather_in(func, name, part);
        }
    }
}

bool tsr_pass_vrank_shards(MlirModule module) {
    uint64_t vranks = 1;
    if (!tsr_sr_find_virtual_ranks(module, &vranks)) return false;
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        tsr_entry_kind kind;
        if (vranks == 1 || !tsr_op_is(func, TSR_FUNC_FUNC) || !tsr_op_has_body(func) ||
            !tsr_graph_entry_kind(func, &kind) || kind != TSR_ENTRY_TRAIN)
            continue;
        for (MlirOperation op;
             !mlirOperationIsNull(op = find_next(module, tsr_op_body(func), vranks));) {
            if (is_step(op))
                fold_step(op);
            else
                fold_gather(op);
        }
        TSR_FOR_EACH_OP(op, tsr_op_body(func)) {
            if (tsr_op_is(op, TSR_SR_SQUARES)) fold_squares(op);
        }
        tsr_sr_gather_elsewhere(module, func);
    }
    return true;
}
