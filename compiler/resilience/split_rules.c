/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/resilience/split_rules.h"

#include "compiler/ir/op_rows.h"
#include "compiler/resilience/resilience.h"
#include "runtime/base/array.h"

enum { WHOLE = TSR_SPLIT_WHOLE, PARTIAL = TSR_SPLIT_PARTIAL };

/* True if sums over virtual ranks support this element type. */
static bool has_sums(tsr_dtype dtype) {
    return dtype == TSR_DTYPE_F32 || dtype == TSR_DTYPE_F64 || dtype == TSR_DTYPE_I64;
}

static bool all_are(const tsr_split *s, int state) {
    for (size_t i = 0; i < s->operand_count; i++)
        if (s->operands[i] != state) return false;
    return true;
}

/* Requires every operand that is a partial sum to be whole. */
static void want_partial_whole(tsr_split *s) {
    for (size_t i = 0; i < s->operand_count; i++)
        if (s->operands[i] == PARTIAL) s->operands[i] = WHOLE;
}

/* The sums of products with tensors that stay are split along their rows, so that norms and other
 * ops between the products work on rows (Korthikanti et al., "Reducing activation recomputation",
 * 2022, section 4.2.2). */
static void resolve_partial(tsr_split *s) {
    for (size_t i = 0; i < s->operand_count; i++) {
        const tsr_shape *shape = &s->operand_types[i].shape;
        bool rows = s->scatters[i] && shape->rank > 1 && shape->dims[0] % s->parts == 0;
        if (s->operands[i] == PARTIAL) s->operands[i] = rows ? 0 : WHOLE;
    }
}

static void want_all_whole(tsr_split *s) {
    for (size_t i = 0; i < s->operand_count; i++) s->operands[i] = WHOLE;
}

/* The state of operand `i` if dim `dim` of the result, to which it is broadcast, is split. */
static int stretched(const tsr_split *s, size_t i, uint32_t result_rank, int dim) {
    const tsr_shape *shape = &s->operand_types[i].shape;
    int at = dim - (int)(result_rank - shape->rank);
    return at < 0 || shape->dims[at] == 1 ? WHOLE : at;
}

static bool split_map(tsr_split *s) {
    uint32_t rank = s->result_types[0].shape.rank;
    int dim = WHOLE;
    want_partial_whole(s);
    for (size_t i = 0; i < s->operand_count && dim == WHOLE; i++)
        if (s->operands[i] >= 0)
            dim = s->operands[i] + (int)(rank - s->operand_types[i].shape.rank);
    for (size_t i = 0; i < s->operand_count && dim != WHOLE; i++)
        s->operands[i] = stretched(s, i, rank, dim);
    s->results[0] = dim;
    return true;
}

/* Applied to summands, the op gives summands of its result. */
static bool is_linear(tsr_op id) {
    return id == TSR_GRAPH_ADD || id == TSR_GRAPH_SUB || id == TSR_GRAPH_NEG ||
           id == TSR_GRAPH_RESHAPE || id == TSR_GRAPH_TRANSPOSE;
}

static bool same_shapes(const tsr_split *s) {
    for (size_t i = 1; i < s->operand_count; i++)
        if (!tsr_shape_equal(&s->operand_types[i].shape, &s->operand_types[0].shape)) return false;
    return true;
}

/* ---- reductions ------------------------------------------------------------------------------ */

static bool split_reduce(tsr_split *s) {
    int64_t axes[TSR_RANK_MAX];
    size_t count = 0;
    int dim = s->operands[0], below = 0;
    if (!tsr_op_i64s(s->op, "axes", TSR_RANK_MAX, axes, &count)) return false;
    for (size_t i = 0; i < count; i++) {
        if (axes[i] < dim) below++;
        if (axes[i] != dim) continue;
        s->results[0] = PARTIAL;
        return tsr_op_is(s->op, TSR_GRAPH_SUM) && has_sums(s->result_types[0].dtype);
    }
    s->results[0] = dim - below;
    return true;
}

/* Like an elementwise op on its plain result, but rows are read whole. */
static bool split_repair(tsr_split *s) {
    int64_t axes[TSR_RANK_MAX];
    size_t count = 0;
    if (!tsr_op_i64s(s->op, "axes", TSR_RANK_MAX, axes, &count)) return false;
    int dim = s->operands[0], below = 0;
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < s->operand_count; k++)
            if (axes[i] == s->operands[k] &&
                s->operand_types[k].shape.rank == s->operand_types[0].shape.rank)
                return false;
        below += axes[i] < dim;
    }
    if (s->result_types[0].shape.rank == s->operand_types[0].shape.rank) return split_map(s);
    if (dim < 0) return false; /* only the plain result is split: whole operands suffice */
    s->operands[1] = s->results[0] = dim - below;
    return true;
}

/* Ops along `axis`; `removes` it from the result. */
static bool split_axis_op(tsr_split *s, bool removes) {
    int64_t axis = 0;
    int dim = s->operands[0];
    if (!tsr_op_i64(s->op, "axis", &axis) || axis == dim) return false;
    for (size_t i = 0; i < s->result_count; i++)
        s->results[i] = removes && axis < dim ? dim - 1 : dim;
    return true;
}

/* ---- products -------------------------------------------------------------------------------- */

typedef struct product_dims {
    int rank, inner, outer; /* dims of one operand: the dim summed over, the dim kept */
} product_dims;

static product_dims dims_of(const tsr_split *s, size_t operand) {
    int rank = (int)s->operand_types[operand].shape.rank;
    bool transposed = tsr_op_flag(s->op, operand ? "transpose_b" : "transpose_a");
    bool last = transposed == (operand == 1); /* the inner dim is the last one */
    return (product_dims){rank, last ? rank - 1 : rank - 2, last ? rank - 2 : rank - 1};
}

/* If both operands are split differently, a split of matrices that are multiplied on their own
 * leads: these are a layer's many matrices, such as those of experts, which stay where they are. */
static size_t leading(const tsr_split *s) {
    int a = s->operands[0], b = s->operands[1];
    if (a < 0 || b < 0) return a < 0;
    if (a >= dims_of(s, 0).rank - 2 && b < dims_of(s, 1).rank - 2) return 1;
    if (!s->has_layouts) return 0;
    if (s->stays[0] != s->stays[1]) return s->stays[1];
    return a == dims_of(s, 0).inner && b == dims_of(s, 1).outer; /* no sum over virtual ranks */
}

/* A product reads the declared dim of a matrix that stays, if its part can be exchanged. */
static void use_declared_dims(tsr_split *s) {
    for (size_t i = 0; i < 2; i++) {
        int dim = s->reads[i];
        const tsr_shape *shape = &s->operand_types[i].shape;
        if (s->stays[i] && s->operands[i] >= 0 && dim < (int)shape->rank &&
            shape->dims[dim] % s->parts == 0)
            s->operands[i] = dim;
    }
}

static bool split_matmul(tsr_split *s) {
    use_declared_dims(s);
    size_t leads = leading(s), other = 1 - leads;
    int dim = s->operands[leads], rank = (int)s->result_types[0].shape.rank;
    product_dims d = dims_of(s, leads), o = dims_of(s, other);
    if (dim == d.inner) {
        s->operands[other] = o.inner;
        s->results[0] = PARTIAL;
        return has_sums(s->result_types[0].dtype);
    }
    if (dim == d.outer) {
        s->operands[other] = WHOLE;
        s->results[0] = leads == 0 ? rank - 2 : rank - 1;
        return true;
    }
    s->results[0] = dim + rank - d.rank;
    s->operands[other] = stretched(s, other, (uint32_t)rank, s->results[0]);
    return true;
}

/* Images and values computed from images: dim 0 is the batch. */
static bool split_images(tsr_split *s, size_t image) {
    for (size_t i = 0; i < s->operand_count; i++)
        if (i != image && s->operands[i] != WHOLE) return false;
    s->results[0] = 0;
    return s->operands[image] == 0;
}

static bool split_filter_gradient(tsr_split *s) {
    s->operands[0] = s->operands[1] = 0;
    s->results[0] = PARTIAL;
    return has_sums(s->result_types[0].dtype);
}

/* Heads are dim 1 of all operands before `mask`. */
static bool split_heads(tsr_split *s, size_t mask) {
    for (size_t i = 0; i < s->operand_count && i < mask; i++)
        if (s->operand_types[i].shape.dims[1] % s->parts) return false;
    for (size_t i = 0; i < s->operand_count && i < mask; i++) s->operands[i] = 1;
    if (s->operand_count > mask) s->operands[mask] = stretched(s, mask, 4, 1);
    for (size_t i = 0; i < s->result_count; i++) s->results[i] = 1;
    return true;
}

/* All operands before `mask` have the batch as dim 0, and so have the numbers of first heads for
 * dropout, if present; the step and the seed are scalars. */
static bool split_attention(tsr_split *s, size_t mask) {
    if (s->has_layouts && !tsr_op_has(s->op, "dropout"))
        for (size_t i = 0; i < s->operand_count && i < mask; i++)
            if (s->operands[i] == 1) return split_heads(s, mask);
    size_t count = s->operand_count;
    if (tsr_op_has(s->op, "dropout")) {
        count -= 3;
        s->operands[count] = 0;
    }
    for (size_t i = 0; i < count && i < mask; i++)
        if (s->operands[i] > 0) return false;
    for (size_t i = 0; i < count && i < mask; i++) s->operands[i] = 0;
    if (count > mask) s->operands[mask] = stretched(s, mask, 4, 0);
    for (size_t i = 0; i < s->result_count; i++) s->results[i] = 0;
    return true;
}

/* ---- moving elements ------------------------------------------------------------------------- */

/* Finds the dim of the result whose V parts contain the same elements. */
static bool split_reshape(tsr_split *s) {
    const tsr_shape *from = &s->operand_types[0].shape, *to = &s->result_types[0].shape;
    uint64_t before = 1, at = 1;
    for (int i = 0; i < s->operands[0]; i++) before *= from->dims[i];
    for (uint32_t i = 0; i < to->rank && at <= before; i++) {
        if (at == before && to->dims[i] % s->parts == 0) {
            s->results[0] = (int)i;
            return true;
        }
        at *= to->dims[i];
    }
    return false;
}

static bool split_transpose(tsr_split *s) {
    int64_t permutation[TSR_RANK_MAX];
    size_t count = 0;
    if (!tsr_op_i64s(s->op, "permutation", TSR_RANK_MAX, permutation, &count)) return false;
    for (size_t i = 0; i < count; i++)
        if (permutation[i] == s->operands[0]) s->results[0] = (int)i;
    return true;
}

/* slice and pad that leave the split dim unchanged. */
static bool split_window(tsr_split *s) {
    static const char *const names[] = {"start", "low", "high", "interior"};
    int64_t values[TSR_RANK_MAX];
    size_t count = 0;
    int dim = s->operands[0];
    for (size_t i = 0; i < TSR_COUNT(names); i++)
        if (tsr_op_i64s(s->op, names[i], TSR_RANK_MAX, values, &count) && values[dim] != 0)
            return false;
    s->results[0] = dim;
    return s->operand_types[0].shape.dims[dim] == s->result_types[0].shape.dims[dim];
}

static bool split_concat(tsr_split *s) {
    int64_t axis = 0;
    int dim = WHOLE;
    for (size_t i = 0; i < s->operand_count; i++)
        if (s->operands[i] >= 0) dim = s->operands[i];
    if (!tsr_op_i64(s->op, "axis", &axis) || axis == dim) return false;
    for (size_t i = 0; i < s->operand_count; i++) s->operands[i] = dim;
    s->results[0] = dim;
    return true;
}

static bool split_gather(tsr_split *s) {
    int64_t axis = 0;
    int indices = (int)s->operand_types[1].shape.rank;
    if (!tsr_op_i64(s->op, "axis", &axis)) return false;
    if (s->operands[1] >= 0) {
        s->operands[0] = WHOLE;
        s->results[0] = (int)axis + s->operands[1];
        return true;
    }
    int dim = s->operands[0];
    s->results[0] = dim < axis ? dim : dim - 1 + indices;
    return dim != axis;
}

static bool is_zero(MlirValue value) {
    MlirOperation op = tsr_value_owner(value);
    double splat = 1;
    return tsr_op_is(op, TSR_GRAPH_CONSTANT) && tsr_attr_splat(tsr_op_attr(op, "value"), &splat) &&
           splat == 0;
}

/* If rows of the updates may be added anywhere, the result is a virtual rank's summand.
 * Otherwise one of the dims other than the axis is split. */
static bool split_scatter(tsr_split *s) {
    int64_t axis = 0;
    int indices = (int)s->operand_types[1].shape.rank, dim = s->operands[2];
    if (!tsr_op_i64(s->op, "axis", &axis)) return false;
    if (s->operands[1] >= 0) dim = (int)axis + s->operands[1];
    if (dim < 0) return false;
    if (dim >= axis && dim < axis + indices) {
        s->operands[0] = WHOLE;
        s->operands[1] = dim - (int)axis;
        s->operands[2] = dim;
        s->results[0] = PARTIAL;
        return tsr_op_is(s->op, TSR_GRAPH_SCATTER_ADD) && is_zero(tsr_op_operand(s->op, 0)) &&
               has_sums(s->result_types[0].dtype);
    }
    s->results[0] = dim < axis ? dim : dim + 1 - indices;
    s->operands[0] = s->results[0];
    s->operands[1] = WHOLE;
    s->operands[2] = dim;
    return true;
}

/* dispatch, combine, dot: the groups are split, dim 1 of contents of slots and dim 0 of the others.
 * Slots whose experts are split are exchanged. */
static bool split_groups(tsr_split *s) {
    for (size_t i = 0; i < s->operand_count; i++) {
        bool contents = s->operand_types[i].shape.rank == 4;
        if (s->operand_types[i].shape.dims[contents] % s->parts) return false;
        s->operands[i] = contents;
    }
    s->results[0] = s->result_types[0].shape.rank == 4;
    return true;
}

static bool split_losses(tsr_split *s) {
    for (size_t i = 0; i < s->operand_count; i++) {
        if (s->operands[i] > 0) return false;
        s->operands[i] = 0;
    }
    s->results[0] = 0;
    return true;
}

static bool find(tsr_split *s, tsr_op id) {
    switch (id) {
    case TSR_GRAPH_SUM:
    case TSR_GRAPH_REDUCE_MAX:
    case TSR_GRAPH_REDUCE_MIN:
    case TSR_GRAPH_REDUCE_PROD:
        return split_reduce(s);
    case TSR_GRAPH_REPAIR:
        return split_repair(s);
    case TSR_GRAPH_ARGMAX:
        return split_axis_op(s, true);
    case TSR_GRAPH_CUMSUM:
    case TSR_GRAPH_SORT:
    case TSR_GRAPH_TOP_K:
        return split_axis_op(s, false);
    case TSR_GRAPH_MATMUL:
        return split_matmul(s);
    case TSR_GRAPH_CONV2D:
    case TSR_GRAPH_MAX_POOL2D:
    case TSR_GRAPH_AVG_POOL2D:
    case TSR_GRAPH_AVG_POOL2D_GRAD:
        return split_images(s, 0);
    case TSR_GRAPH_MAX_POOL2D_GRAD:
        s->operands[0] = s->operands[1] = s->results[0] = 0;
        return true;
    case TSR_GRAPH_CONV2D_GRAD_INPUT:
        return split_images(s, 1);
    case TSR_GRAPH_CONV2D_GRAD_FILTER:
        return split_filter_gradient(s);
    case TSR_GRAPH_ATTENTION:
        return split_attention(s, 3);
    case TSR_GRAPH_ATTENTION_GRAD:
        return split_attention(s, 6);
    case TSR_GRAPH_RESHAPE:
        return split_reshape(s);
    case TSR_GRAPH_TRANSPOSE:
        return split_transpose(s);
    case TSR_GRAPH_SLICE:
    case TSR_GRAPH_PAD:
        return split_window(s);
    case TSR_GRAPH_CONCAT:
        return split_concat(s);
    case TSR_GRAPH_GATHER:
        return split_gather(s);
    case TSR_GRAPH_SCATTER_ADD:
    case TSR_GRAPH_SCATTER:
        return split_scatter(s);
    case TSR_GRAPH_MOE_DISPATCH:
    case TSR_GRAPH_MOE_COMBINE:
    case TSR_GRAPH_MOE_DOT:
        return split_groups(s);
    case TSR_GRAPH_CROSS_ENTROPY:
    case TSR_GRAPH_CROSS_ENTROPY_GRAD:
        return split_losses(s);
    default:
        return false;
    }
}

/* Ops that need the split dim whole, but work on rows: exchanging blocks is cheaper than gathering.
 */
static bool works_on_rows(tsr_op id) {
    return id == TSR_GRAPH_SLICE || id == TSR_GRAPH_PAD || id == TSR_GRAPH_CONCAT ||
           id == TSR_GRAPH_RESHAPE || id == TSR_GRAPH_ATTENTION || id == TSR_GRAPH_ATTENTION_GRAD;
}

/* Requires the rows of all operands that are split along another dim. */
static bool use_rows(tsr_split *s) {
    bool changed = false;
    for (size_t i = 0; i < s->operand_count; i++) {
        if (s->operands[i] <= 0) continue;
        if (s->operand_types[i].shape.dims[0] % s->parts) return false;
        s->operands[i] = 0;
        changed = true;
    }
    return changed;
}

static bool find_again(tsr_split *s, tsr_op id, const int *states) {
    for (size_t i = 0; i < s->operand_count; i++) s->operands[i] = states[i];
    return s->has_layouts && works_on_rows(id) && use_rows(s) && find(s, id);
}

bool tsr_split_find(tsr_split *s) {
    tsr_op id = tsr_op_of(s->op);
    const tsr_op_row *row = tsr_op_row_find(s->op);
    for (size_t i = 0; i < s->result_count; i++) s->results[i] = WHOLE;
    if (is_linear(id) && all_are(s, PARTIAL) && same_shapes(s)) {
        s->results[0] = PARTIAL;
        return true;
    }
    resolve_partial(s);
    if (tsr_op_is(s->op, TSR_SR_BARRIER)) {
        for (size_t i = 0; i < s->result_count; i++) s->results[i] = s->operands[i];
        return true;
    }
    if (all_are(s, WHOLE)) return true;
    int states[TSR_RULE_OPERANDS_MAX];
    for (size_t i = 0; i < s->operand_count; i++) states[i] = s->operands[i];
    bool found = row && row->op_class == TSR_CLASS_MAP ? split_map(s) : find(s, id);
    if (!found) found = find_again(s, id, states);
    if (!found) {
        want_all_whole(s);
        for (size_t i = 0; i < s->result_count; i++) s->results[i] = WHOLE;
    }
    return found;
}
