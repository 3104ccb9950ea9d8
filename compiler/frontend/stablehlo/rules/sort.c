/* SPDX-License-Identifier: Apache-2.0
 *
 * Sort. A comparison of one operand with itself, LT or GT, after the same ops on both sides, sorts
 * by the result of these ops. Any other comparison counts the elements before each one, which
 * is its position.
 */
#include "compiler/frontend/stablehlo/rules.h"
#include "compiler/frontend/stablehlo/rules/order.h"
#include "compiler/process/guard.h"
#include "compiler/shim/shim.h"

#include <inttypes.h>
#include <string.h>

enum { SORTED_MAX = 16, COUNTED_MAX = 1 << 12 /* elements along the axis */ };

/* ---- moving elements along the axis ---- */

/* x with the elements that `indices` (i64, of x's shape except along the axis) name there. */
static MlirValue take_elements(tsr_hlo_call *c, MlirValue x, MlirValue indices, uint32_t axis) {
    tsr_shape shape = tsr_hlo_type(x).shape, flat = {.rank = 1, .dims = {1}};
    if (c->failed) return x;
    for (uint32_t i = 0; i < shape.rank; i++) flat.dims[0] *= shape.dims[i];
    if (shape.rank == 1) return tsr_hlo_gather(c, x, indices, 0);
    int64_t scale = 1;
    MlirValue offsets = {NULL};
    for (uint32_t i = shape.rank; i-- > 0;) {
        MlirValue term =
            i == axis ? EMIT(c, "mul", indices, tsr_hlo_number(c, TSR_DTYPE_I64, (double)scale))
                      : tsr_hlo_positions(c, shape.rank, i, shape.dims[i], scale);
        offsets = mlirValueIsNull(offsets) ? term : EMIT(c, "add", offsets, term);
        scale *= (int64_t)shape.dims[i];
    }
    return tsr_hlo_gather(c, tsr_hlo_reshape(c, x, &flat), offsets, 0);
}

/* The positions that sort `key`. */
static MlirValue sorting_indices(tsr_hlo_call *c, MlirValue key, uint32_t axis, bool descending) {
    tsr_attr attrs[] = {tsr_hlo_i64_attr(c, "axis", axis),
                        {"descending", tsr_attr_make_bool(c->builder->context, descending)},
                        {0}};
    MlirValue results[2];
    tsr_type types[2] = {tsr_hlo_type(key), tsr_hlo_type(key)};
    types[1].dtype = TSR_DTYPE_I64;
    tsr_hlo_emit_many(c, TSR_GRAPH_NAME("sort"), &key, 1, attrs, 2, types, results);
    return results[1];
}

/* ---- comparisons of one key ---- */

typedef struct comparison {
    size_t operand; /* the one that is compared */
    bool descending, total;
    MlirValue key; /* of StableHLO, in the block: computed of the operand's first argument */
} comparison;

/* True if `a` is computed of argument 2 k as `b` is of 2 k + 1, where k is *operand, or is set. */
static bool same_function(MlirBlock block, MlirValue a, MlirValue b, size_t *operand,
                          unsigned depth) {
    enum { FUNCTION_DEPTH_MAX = 32 };
    if (depth == FUNCTION_DEPTH_MAX) return false;
    if (mlirValueIsABlockArgument(a)) {
        if (!mlirValueIsABlockArgument(b)) return false;
        if (!mlirBlockEqual(mlirBlockArgumentGetOwner(a), block)) return mlirValueEqual(a, b);
        size_t i = (size_t)mlirBlockArgumentGetArgNumber(a);
        size_t k = (size_t)mlirBlockArgumentGetArgNumber(b);
        if (i % 2 || k != i + 1 || (*operand != SIZE_MAX && *operand != i / 2)) return false;
        *operand = i / 2;
        return true;
    }
    if (mlirValueEqual(a, b)) return tsr_op_operand_count(mlirOpResultGetOwner(a)) == 0;
    if (mlirValueIsABlockArgument(b)) return false;
    MlirOperation x = mlirOpResultGetOwner(a), y = mlirOpResultGetOwner(b);
    size_t count = tsr_op_operand_count(x);
    if (!tsr_op_is_named(x, tsr_op_name(y)) || count != tsr_op_operand_count(y) ||
        tsr_op_result_count(x) != 1 || tsr_op_result_count(y) != 1 ||
        mlirOperationGetNumRegions(x) || mlirOperationGetNumRegions(y) || !tsr_hlo_same_attrs(x, y))
        return false;
    for (size_t i = 0; i < count; i++)
        if (!same_function(block, tsr_op_operand(x, i), tsr_op_operand(y, i), operand, depth + 1))
            return false;
    return true;
}

static bool read_comparison(tsr_hlo_call *c, MlirBlock block, comparison *out) {
    MlirOperation end = tsr_hlo_end(block);
    if (mlirOperationIsNull(end) || tsr_op_operand_count(end) != 1) return false;
    MlirValue value = tsr_op_operand(end, 0);
    if (!tsr_hlo_made_by(value, "stablehlo.compare")) return false;
    tsr_hlo_call inner = *c;
    inner.op = mlirOpResultGetOwner(value);
    const char *word = tsr_hlo_word(&inner, "comparison_direction", 0);
    const char *type = tsr_hlo_word(&inner, "compare_type", 1);
    if (!word || (strcmp(word, "LT") != 0 && strcmp(word, "GT") != 0)) return false;
    MlirValue a = tsr_op_operand(inner.op, 0), b = tsr_op_operand(inner.op, 1);
    *out = (comparison){.operand = SIZE_MAX, .descending = word[0] == 'G', .key = a};
    out->total = type && strcmp(type, "TOTALORDER") == 0;
    return same_function(block, a, b, &out->operand, 0) && out->operand != SIZE_MAX;
}

/* The key of all elements: the block, for the whole operands on both sides. */
static MlirValue make_key(tsr_hlo_call *c, MlirBlock block, const comparison *by) {
    MlirValue arguments[2 * SORTED_MAX], unused;
    for (size_t i = 0; i < c->in_count; i++) arguments[2 * i] = arguments[2 * i + 1] = c->in[i];
    if (!tsr_hlo_import_block(c, block, arguments, true, 1, &unused)) return (MlirValue){NULL};
    MlirValue key = tsr_hlo_bound(c, by->key);
    tsr_shape shape = tsr_hlo_type(c->in[0]).shape;
    if (mlirValueIsNull(key)) return key;
    key = tsr_hlo_broadcast(c, key, &shape);
    return by->total && tsr_hlo_is_float(key) ? tsr_hlo_total_order(c, key) : key;
}

/* ---- any comparison ---- */

/* [A, n, B] as [A, n, 1, B] or [A, 1, n, B]. */
static MlirValue as_pairs(tsr_hlo_call *c, MlirValue x, uint32_t axis, bool rows) {
    tsr_shape s = tsr_hlo_type(x).shape, pairs = {.rank = 4, .dims = {1, 1, 1, 1}};
    for (uint32_t i = 0; i < s.rank; i++) {
        if (i == axis)
            pairs.dims[rows ? 1 : 2] = s.dims[i];
        else
            pairs.dims[i < axis ? 0 : 3] *= s.dims[i];
    }
    return tsr_hlo_reshape(c, x, &pairs);
}

/* For each element, how many elements the comparison puts before it, or are equal and
 * stand before it: a permutation, whose inverse are the indices. */
static MlirValue counted_indices(tsr_hlo_call *c, MlirBlock block, uint32_t axis) {
    MlirValue arguments[2 * SORTED_MAX], less, greater;
    static const int64_t axes[] = {1};
    tsr_shape shape = tsr_hlo_type(c->in[0]).shape;
    uint64_t size = shape.dims[axis];
    if (size > COUNTED_MAX)
        return tsr_hlo_fail_value(c, TSR_DIAG_HLO_FORM,
                                  "its comparison is not LT or GT of one key, and the axis has "
                                  "%" PRIu64 " elements; at most %d can be sorted by such ones",
                                  size, COUNTED_MAX);
    for (size_t i = 0; i < c->in_count; i++) {
        arguments[2 * i] = as_pairs(c, c->in[i], axis, true);
        arguments[2 * i + 1] = as_pairs(c, c->in[i], axis, false);
    }
    if (!tsr_hlo_import_block(c, block, arguments, true, 1, &less)) return less;
    for (size_t i = 0; i < 2 * c->in_count; i += 2) {
        MlirValue first = arguments[i];
        arguments[i] = arguments[i + 1];
        arguments[i + 1] = first;
    }
    if (!tsr_hlo_import_block(c, block, arguments, true, 1, &greater)) return greater;
    MlirValue earlier = tsr_hlo_compare(c, TSR_PREDICATE_LT, tsr_hlo_positions(c, 4, 1, size, 1),
                                        tsr_hlo_positions(c, 4, 2, size, 1));
    MlirValue before = EMIT(c, "or", less, EMIT(c, "and", earlier, EMIT(c, "not", greater)));
    MlirValue rank =
        tsr_hlo_reduce(c, TSR_GRAPH_NAME("sum"), tsr_hlo_cast(c, before, TSR_DTYPE_I64), 1, axes);
    rank = tsr_hlo_reshape(c, rank, &shape);
    return sorting_indices(c, rank, axis, false); /* sorting a permutation inverts it */
}

/* ---- the ops ---- */

bool tsr_hlo_rule_sort(tsr_hlo_call *c) {
    int64_t axis;
    comparison by;
    uint32_t rank = tsr_hlo_rank(c->in[0]);
    MlirBlock block = tsr_hlo_block(c, 0, 2 * c->in_count);
    if (c->in_count != c->out_count || c->in_count > SORTED_MAX || mlirBlockIsNull(block))
        return tsr_hlo_fail(c, TSR_DIAG_HLO_FORM, "it has %zu operands and %zu results",
                            c->in_count, c->out_count);
    if (!tsr_hlo_int(c, "dimension", NULL, -1, &axis)) return false;
    if (axis < 0) axis += rank;
    if (!tsr_hlo_check_dims(c, "it", rank, 1, &axis)) return false;
    MlirValue indices;
    if (read_comparison(c, block, &by))
        indices = sorting_indices(c, make_key(c, block, &by), (uint32_t)axis, by.descending);
    else
        indices = counted_indices(c, block, (uint32_t)axis);
    for (size_t i = 0; i < c->in_count; i++)
        tsr_hlo_out(c, i, take_elements(c, c->in[i], indices, (uint32_t)axis));
    return !c->failed;
}

bool tsr_hlo_rule_top_k(tsr_hlo_call *c) {
    int64_t k;
    uint32_t rank = tsr_hlo_rank(c->in[0]);
    MlirValue results[2], key = c->in[0];
    tsr_type types[2] = {c->types[0], c->types[0]};
    if (!tsr_hlo_int(c, "k", NULL, -1, &k)) return false;
    if (rank == 0) return tsr_hlo_fail(c, TSR_DIAG_HLO_FORM, "its operand is a scalar");
    if (tsr_hlo_is_float(key)) key = tsr_hlo_total_order(c, key); /* NaN is the largest */
    types[0].dtype = tsr_hlo_dtype(key);
    types[1].dtype = TSR_DTYPE_I64;
    tsr_attr attrs[] = {tsr_hlo_i64_attr(c, "axis", rank - 1), tsr_hlo_i64_attr(c, "k", k), {0}};
    if (!tsr_hlo_emit_many(c, TSR_GRAPH_NAME("top_k"), &key, 1, attrs, 2, types, results))
        return false;
    tsr_hlo_out(c, 0, take_elements(c, c->in[0], results[1], rank - 1));
    return tsr_hlo_out(c, 1, tsr_hlo_cast(c, results[1], c->types[1].dtype));
}
