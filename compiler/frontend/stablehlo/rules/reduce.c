/* SPDX-License-Identifier: Apache-2.0
 *
 * Reductions. A body that is one op becomes the op of Graph IR that reduces by it. Any other body,
 * also over several operands at once, is computed as a tree: the reduced elements are rows, and the
 * body combines the first half with the second, until one is left.
 */
#include "compiler/frontend/stablehlo/rules/reduce.h"

#include "compiler/process/guard.h"
#include "compiler/shim/shim.h"
#include "runtime/base/array.h"

#include <math.h>
#include <string.h>

/* ---- bodies ---------------------------------------------------------------------------------- */

/* The op whose result the block returns, if it is the only one and takes the two arguments. */
static const char *only_op(MlirBlock block) {
    MlirOperation op = mlirBlockGetFirstOperation(block), end = tsr_hlo_end(block);
    MlirValue a = mlirBlockGetArgument(block, 0), b = mlirBlockGetArgument(block, 1);
    if (mlirOperationIsNull(end) || tsr_op_operand_count(end) != 1) return "";
    if (mlirOperationEqual(op, end))
        return mlirValueEqual(tsr_op_operand(end, 0), b) ? "return" : "";
    if (!mlirOperationEqual(mlirOperationGetNextInBlock(op), end) ||
        tsr_op_operand_count(op) != 2 || tsr_op_result_count(op) != 1 ||
        !mlirValueEqual(tsr_op_operand(end, 0), tsr_op_result(op, 0)))
        return "";
    MlirValue x = tsr_op_operand(op, 0), y = tsr_op_operand(op, 1);
    bool takes = (mlirValueEqual(x, a) && mlirValueEqual(y, b)) ||
                 (mlirValueEqual(x, b) && mlirValueEqual(y, a));
    return takes ? tsr_op_name(op) : "";
}

static const char *plain(const char *name) {
    static const char *const known[] = {"add", "multiply", "maximum", "minimum",
                                        "and", "or",       "xor",     "return"};
    const char *dot = strchr(name, '.');
    for (size_t i = 0; i < TSR_COUNT(known); i++)
        if (strcmp(dot ? dot + 1 : name, known[i]) == 0) return known[i];
    return "";
}

const char *tsr_hlo_body_op(const tsr_hlo_call *c, size_t region) {
    const char *applied = tsr_hlo_word(c, NULL, 0);
    if (applied && strcmp(applied, "applies") == 0) return plain(tsr_hlo_word(c, NULL, 1));
    if ((size_t)mlirOperationGetNumRegions(c->op) <= region) return "";
    MlirBlock block = mlirRegionGetFirstBlock(mlirOperationGetRegion(c->op, (intptr_t)region));
    if (mlirBlockIsNull(block) || mlirBlockGetNumArguments(block) != 2) return "";
    return plain(only_op(block));
}

/* Ops of Graph IR for the body's op: `combine` of two values, `reduce` of dims. For truth values,
 * and and or are the minimum and the maximum. */
typedef struct operation {
    const char *body, *combine, *reduce;
    double identity; /* for floats */
} operation;
static const operation operations[] = {
    {"add", TSR_GRAPH_NAME("add"), TSR_GRAPH_NAME("sum"), 0},
    {"multiply", TSR_GRAPH_NAME("mul"), TSR_GRAPH_NAME("reduce_prod"), 1},
    {"maximum", TSR_GRAPH_NAME("max"), TSR_GRAPH_NAME("reduce_max"), -INFINITY},
    {"minimum", TSR_GRAPH_NAME("min"), TSR_GRAPH_NAME("reduce_min"), INFINITY},
    {"and", TSR_GRAPH_NAME("and"), NULL, 0},
    {"or", TSR_GRAPH_NAME("or"), NULL, 0},
    {"xor", TSR_GRAPH_NAME("xor"), NULL, 0},
};

static const operation *find_operation(const char *body) {
    for (size_t i = 0; i < TSR_COUNT(operations); i++)
        if (strcmp(operations[i].body, body) == 0) return &operations[i];
    return NULL;
}

/* A plain body on truth values is one of "and" and "or". */
static const operation *operation_on(const char *body, tsr_dtype dtype) {
    if (dtype == TSR_DTYPE_I1 && (strcmp(body, "add") == 0 || strcmp(body, "maximum") == 0))
        body = "or";
    if (dtype == TSR_DTYPE_I1 && (strcmp(body, "multiply") == 0 || strcmp(body, "minimum") == 0))
        body = "and";
    return find_operation(body);
}

bool tsr_hlo_combine(tsr_hlo_call *c, size_t count, const MlirValue *a, const MlirValue *b,
                     MlirValue *out) {
    const operation *known =
        count == 1 ? operation_on(tsr_hlo_body_op(c, 0), tsr_hlo_dtype(a[0])) : NULL;
    MlirValue arguments[2 * TSR_HLO_REDUCED_MAX];
    if (known) {
        out[0] = tsr_hlo_emit(c, known->combine, (MlirValue[]){a[0], b[0]}, 2, NULL, NULL);
        return !c->failed;
    }
    memcpy(arguments, a, count * sizeof *a);
    memcpy(arguments + count, b, count * sizeof *b);
    if (!tsr_hlo_import_block(c, tsr_hlo_block(c, 0, 2 * count), arguments, true, count, out))
        return false;
    for (size_t i = 0; i < count; i++) { /* a body that ignores its arguments gives a scalar */
        tsr_type type = tsr_hlo_type(a[i]);
        out[i] = tsr_hlo_broadcast(c, out[i], &type.shape);
    }
    return !c->failed;
}

bool tsr_hlo_is_identity(const tsr_hlo_call *c, MlirValue init) {
    const operation *known = operation_on(tsr_hlo_body_op(c, 0), tsr_hlo_dtype(init));
    double value;
    tsr_dtype dtype = tsr_hlo_dtype(init);
    if (!known || !tsr_hlo_splat(init, &value)) return false;
    if (strcmp(known->body, "and") == 0) return dtype == TSR_DTYPE_I1 ? value != 0 : value == -1;
    if (!known->reduce || tsr_dtype_is_float(dtype) || isfinite(known->identity))
        return value == known->identity;
    if (known->identity < 0) return value == (double)tsr_dtype_lowest(dtype);
    return tsr_dtype_bits(dtype) < 64 && value == (double)tsr_dtype_highest(dtype);
}

/* ---- trees ----------------------------------------------------------------------------------- */

/* The first operand's rows at `start`, and those of the others. */
static void take_rows(tsr_hlo_call *c, size_t count, const MlirValue *x, int64_t start,
                      int64_t size, MlirValue *out) {
    for (size_t i = 0; i < count; i++) out[i] = tsr_hlo_slice_dim(c, x[i], 0, start, size, 1);
}

/* Reduces dim 0 to one row. Neighbours are not combined with each other: the order is that of a
 * tree, which StableHLO leaves open. */
static bool reduce_rows(tsr_hlo_call *c, size_t count, MlirValue *x) {
    MlirValue a[TSR_HLO_REDUCED_MAX], b[TSR_HLO_REDUCED_MAX], last[TSR_HLO_REDUCED_MAX];
    int64_t rows = (int64_t)tsr_hlo_dim(x[0], 0);
    while (rows > 1 && !c->failed) {
        int64_t half = rows / 2;
        take_rows(c, count, x, 0, half, a);
        take_rows(c, count, x, half, half, b);
        take_rows(c, count, x, 2 * half, rows % 2, last);
        if (!tsr_hlo_combine(c, count, a, b, x)) return false;
        for (size_t i = 0; i < count && rows % 2; i++)
            x[i] = tsr_hlo_concat(c, 2, (MlirValue[]){x[i], last[i]}, 0);
        rows = half + rows % 2;
    }
    return !c->failed;
}

/* The reduced dims, in ascending order, become dim 0. */
static MlirValue rows_first(tsr_hlo_call *c, MlirValue x, size_t axis_count, const int64_t *axes) {
    int64_t permutation[TSR_RANK_MAX];
    tsr_shape shape = {.rank = 1, .dims = {1}};
    uint32_t rank = tsr_hlo_rank(x), at = 0;
    for (size_t i = 0; i < axis_count; i++) {
        permutation[at++] = axes[i];
        shape.dims[0] *= tsr_hlo_dim(x, (uint32_t)axes[i]);
    }
    for (uint32_t i = 0; i < rank; i++) {
        bool reduced = false;
        for (size_t k = 0; k < axis_count; k++) reduced = reduced || axes[k] == (int64_t)i;
        if (reduced) continue;
        permutation[at++] = i;
        shape.dims[shape.rank++] = tsr_hlo_dim(x, i);
    }
    return tsr_hlo_reshape(c, tsr_hlo_transpose(c, x, permutation), &shape);
}

static bool reduce_by_tree(tsr_hlo_call *c, size_t count, size_t axis_count, const int64_t *axes,
                           MlirValue *out) {
    MlirValue x[TSR_HLO_REDUCED_MAX], init[TSR_HLO_REDUCED_MAX];
    bool empty = false;
    for (size_t i = 0; i < count; i++) {
        x[i] = rows_first(c, c->in[i], axis_count, axes);
        init[i] = tsr_hlo_broadcast(c, c->in[count + i], &c->types[i].shape);
        empty = tsr_hlo_dim(x[i], 0) == 0;
    }
    memcpy(out, init, count * sizeof *init);
    if (c->failed || empty) return !c->failed;
    if (!reduce_rows(c, count, x)) return false;
    for (size_t i = 0; i < count; i++) x[i] = tsr_hlo_reshape(c, x[i], &c->types[i].shape);
    if (count == 1 && tsr_hlo_is_identity(c, c->in[1])) {
        out[0] = x[0];
        return !c->failed;
    }
    return tsr_hlo_combine(c, count, init, x, out);
}

/* ---- the ops of Graph IR --------------------------------------------------------------------- */

/* Truth values are reduced as integers; sums of small integers by the tree. */
static bool reduce_by_op(tsr_hlo_call *c, const operation *op, size_t axis_count,
                         const int64_t *axes) {
    tsr_dtype dtype = tsr_hlo_dtype(c->in[0]);
    bool truth = dtype == TSR_DTYPE_I1;
    const char *name = truth ? strcmp(op->body, "or") == 0 ? TSR_GRAPH_NAME("reduce_max")
                                                           : TSR_GRAPH_NAME("reduce_min")
                             : op->reduce;
    MlirValue x = truth ? tsr_hlo_cast(c, c->in[0], TSR_DTYPE_I32) : c->in[0];
    x = tsr_hlo_cast(c, tsr_hlo_reduce(c, name, x, axis_count, axes), dtype);
    if (tsr_hlo_is_identity(c, c->in[1])) return tsr_hlo_out(c, 0, x);
    MlirValue init = tsr_hlo_broadcast(c, c->in[1], &c->types[0].shape);
    MlirValue both[] = {init, x};
    return tsr_hlo_out(c, 0, tsr_hlo_emit(c, op->combine, both, 2, NULL, NULL));
}

static bool has_op(const operation *op, tsr_dtype dtype) {
    if (!op) return false;
    if (dtype == TSR_DTYPE_I1) return strcmp(op->body, "xor") != 0;
    if (!op->reduce) return false;
    bool sums = op->reduce && (strcmp(op->body, "add") == 0 || strcmp(op->body, "multiply") == 0);
    return !sums || tsr_dtype_is_float(dtype) || tsr_dtype_bits(dtype) >= 32;
}

static void sort_axes(size_t count, int64_t *axes) {
    for (size_t i = 1; i < count; i++)
        for (size_t k = i; k > 0 && axes[k - 1] > axes[k]; k--) {
            int64_t axis = axes[k];
            axes[k] = axes[k - 1];
            axes[k - 1] = axis;
        }
}

bool tsr_hlo_rule_reduce(tsr_hlo_call *c) {
    int64_t axes[TSR_RANK_MAX];
    size_t axis_count, count = c->out_count;
    if (c->in_count != 2 * count || count > TSR_HLO_REDUCED_MAX || count == 0)
        return tsr_hlo_fail(c, TSR_DIAG_HLO_FORM, "it has %zu operands and %zu results",
                            c->in_count, count);
    if (!tsr_hlo_ints(c, "dimensions", NULL, TSR_RANK_MAX, axes, &axis_count)) return false;
    for (size_t i = 0; i < count; i++)
        if (!tsr_hlo_check_dims(c, "dimensions", tsr_hlo_rank(c->in[i]), axis_count, axes) ||
            tsr_hlo_rank(c->in[count + i]) != 0)
            return tsr_hlo_fail(c, TSR_DIAG_HLO_FORM, "initial value %zu is no scalar", i);
    sort_axes(axis_count, axes);
    uint64_t elements;
    tsr_type x = tsr_hlo_type(c->in[0]);
    const operation *op = count == 1 ? operation_on(tsr_hlo_body_op(c, 0), x.dtype) : NULL;
    bool empty = !tsr_shape_count(&x.shape, &elements) || elements == 0;
    if (has_op(op, x.dtype) && !empty && axis_count) return reduce_by_op(c, op, axis_count, axes);
    return reduce_by_tree(c, count, axis_count, axes, c->out);
}

/* The body computes all elements at once. */
bool tsr_hlo_rule_map(tsr_hlo_call *c) {
    tsr_shape shape = tsr_hlo_type(c->in[0]).shape;
    MlirValue out;
    if (!tsr_hlo_import_block(c, tsr_hlo_block(c, 0, c->in_count), c->in, true, 1, &out))
        return false;
    return tsr_hlo_out(c, 0, tsr_hlo_broadcast(c, out, &shape));
}
