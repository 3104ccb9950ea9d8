/* SPDX-License-Identifier: Apache-2.0
 *
 * Outline: in the order of the block, an op whose operands are transposed in one way computes on
 * what was transposed, and its result is transposed instead. So transposes sink until they meet
 * one that undoes them, or a result. A transpose that moves only dims of size 1 is a reshape.
 *
 *     relu(transpose(x))                     transpose(relu(x))
 *     add(transpose(x), bias)                transpose(add(x, bias in the order of x))
 *     sum(transpose(x), axes)                the sum over the axes of x, transposed if need be
 *
 * The op's own transposes count twice: an op with as many other operands that would have to be
 * transposed back stays as it is.
 */
#include "compiler/frontend/onnx/layout.h"

#include "compiler/graph/graph.h"
#include "compiler/process/guard.h"
#include "runtime/base/array.h"

#include <string.h>

enum { OPERANDS_MAX = 64, RESULTS_MAX = 4 };

/* How dims are moved: result dim i is dim `from[i]`. */
typedef struct order {
    uint32_t rank;
    int64_t from[TSR_RANK_MAX];
} order;

static tsr_type type_of(MlirValue value) {
    tsr_type type;
    bool has_type = tsr_value_type(value, &type);
    TSR_ASSERT(has_type);
    return type;
}

static order inverse(const order *o) {
    order back = {.rank = o->rank};
    for (uint32_t i = 0; i < o->rank; i++) back.from[o->from[i]] = i;
    return back;
}

static bool same_order(const order *a, const order *b) {
    return a->rank == b->rank && memcmp(a->from, b->from, a->rank * sizeof a->from[0]) == 0;
}

static tsr_shape reorder(const tsr_shape *shape, const order *o) {
    tsr_shape moved = {.rank = shape->rank};
    for (uint32_t i = 0; i < shape->rank; i++) moved.dims[i] = shape->dims[o->from[i]];
    return moved;
}

/* True if the dims that are not 1 keep their order. */
static bool moves_nothing(const tsr_shape *shape, const order *o) {
    int64_t last = -1;
    for (uint32_t i = 0; i < o->rank; i++) {
        if (shape->dims[o->from[i]] == 1) continue;
        if (o->from[i] < last) return false;
        last = o->from[i];
    }
    return true;
}

static bool read_transpose(MlirValue value, MlirValue *out_from, order *out_order) {
    MlirOperation op = tsr_value_owner(value);
    size_t count = 0;
    if (mlirOperationIsNull(op) || tsr_op_of(op) != TSR_GRAPH_TRANSPOSE ||
        !tsr_op_i64s(op, "permutation", TSR_RANK_MAX, out_order->from, &count))
        return false;
    out_order->rank = (uint32_t)count;
    *out_from = tsr_op_operand(op, 0);
    return true;
}

/* ---- building -------------------------------------------------------------------------------- */

static MlirValue emit_shape_op(tsr_builder *b, const char *name, MlirValue x,
                               const tsr_shape *shape, const tsr_attr *attrs) {
    tsr_type type = {.dtype = type_of(x).dtype, .shape = *shape};
    return tsr_build_value(b, name, &x, 1, tsr_type_make(b->context, &type), attrs);
}

static MlirValue emit_reshape(tsr_builder *b, MlirValue x, const tsr_shape *shape) {
    tsr_shape is = type_of(x).shape;
    return tsr_shape_equal(&is, shape)
               ? x
               : emit_shape_op(b, TSR_GRAPH_NAME("reshape"), x, shape, NULL);
}

/* A transpose, composed with the one that made x; or a reshape. */
static MlirValue emit_order(tsr_builder *b, MlirValue x, const order *o) {
    order whole = *o, inner;
    MlirValue from;
    while (read_transpose(x, &from, &inner)) {
        for (uint32_t i = 0; i < o->rank; i++) whole.from[i] = inner.from[whole.from[i]];
        x = from;
    }
    tsr_shape shape = type_of(x).shape, moved = reorder(&shape, &whole);
    if (moves_nothing(&shape, &whole)) return emit_reshape(b, x, &moved);
    const tsr_attr attrs[] = {
        {"permutation", tsr_attr_make_i64s(b->context, whole.rank, whole.from)}, {0}};
    return emit_shape_op(b, TSR_GRAPH_NAME("transpose"), x, &moved, attrs);
}

/* The op on other operands, with some attributes replaced; `changed` end at one without a name.
 * Returns the first result, which has the shape; the others have the types that they had. */
static MlirValue rebuild(tsr_builder *b, MlirOperation op, const MlirValue *operands,
                         const tsr_shape *shape, const tsr_attr *changed) {
    enum { ATTRS_MAX = 16 };
    tsr_attr attrs[ATTRS_MAX] = {0};
    size_t count = 0;
    intptr_t attr_count = mlirOperationGetNumAttributes(op);
    tsr_type type = {.dtype = type_of(tsr_op_result(op, 0)).dtype, .shape = *shape};
    MlirType types[RESULTS_MAX] = {tsr_type_make(b->context, &type)};
    size_t result_count = tsr_op_result_count(op);
    TSR_ASSERT(attr_count < ATTRS_MAX && result_count <= RESULTS_MAX);
    for (size_t i = 1; i < result_count; i++) types[i] = mlirValueGetType(tsr_op_result(op, i));
    for (intptr_t i = 0; i < attr_count; i++) {
        MlirNamedAttribute named = mlirOperationGetAttribute(op, i);
        tsr_attr attr = {mlirIdentifierStr(named.name).data, named.attribute};
        for (const tsr_attr *c = changed; c && c->name; c++)
            if (strcmp(c->name, attr.name) == 0) attr.value = c->value;
        attrs[count++] = attr;
    }
    MlirOperation built = tsr_build(b, &(tsr_op_desc){.name = tsr_op_name(op),
                                                      .operands = operands,
                                                      .operand_count = tsr_op_operand_count(op),
                                                      .results = types,
                                                      .result_count = result_count,
                                                      .attrs = attrs,
                                                      .attr_count = count});
    for (size_t i = 1; i < result_count; i++)
        mlirValueReplaceAllUsesOfWith(tsr_op_result(op, i), tsr_op_result(built, i));
    return tsr_op_result(built, 0);
}

static void replace(MlirOperation op, MlirValue by) {
    mlirValueReplaceAllUsesOfWith(tsr_op_result(op, 0), by);
    mlirOperationDestroy(op);
}

/* ---- operands -------------------------------------------------------------------------------- */

typedef struct view {
    size_t count;
    MlirValue operands[OPERANDS_MAX];
    order moved; /* how the first transposed operand was moved */
} view;

/* Constants and parameters are moved once, not in each call. */
static bool is_free(MlirValue value) {
    MlirOperation op = tsr_value_owner(value);
    tsr_op id = mlirOperationIsNull(op) ? TSR_OP_NONE : tsr_op_of(op);
    if (id == TSR_GRAPH_RESHAPE) return is_free(tsr_op_operand(op, 0));
    return id == TSR_GRAPH_PARAM || id == TSR_GRAPH_CONSTANT;
}

/* The dims aligned at the last one, as broadcasting aligns them. */
static tsr_shape align(const tsr_shape *shape, uint32_t rank) {
    tsr_shape full = {.rank = rank};
    for (uint32_t i = 0; i < rank; i++)
        full.dims[i] = i + shape->rank >= rank ? shape->dims[i + shape->rank - rank] : 1;
    return full;
}

static bool is_ones(const tsr_shape *shape) {
    for (uint32_t i = 0; i < shape->rank; i++)
        if (shape->dims[i] != 1) return false;
    return true;
}

/* Finds the order of the transposed operands that have `rank` dims. False if none has one, or if
 * too many others would have to be moved. */
static bool choose_order(MlirOperation op, uint32_t rank, view *v) {
    size_t sunk = 0, others = 0;
    v->count = tsr_op_operand_count(op);
    if (v->count > OPERANDS_MAX || v->count == 0) return false;
    for (size_t i = 0; i < v->count; i++) {
        order moved;
        MlirValue value = tsr_op_operand(op, i), from;
        tsr_shape shape = type_of(value).shape;
        if (read_transpose(value, &from, &moved) && moved.rank == rank) {
            if (!sunk) v->moved = moved;
            if (same_order(&moved, &v->moved)) {
                sunk++;
                continue;
            }
        }
        order back = sunk ? inverse(&v->moved) : (order){0};
        tsr_shape full = align(&shape, rank);
        bool stays = is_ones(&shape) || is_free(value) || (sunk && moves_nothing(&full, &back));
        others += !stays;
    }
    return sunk > others;
}

/* The operands in the order of what was transposed. */
static void move_operands(tsr_builder *b, MlirOperation op, uint32_t rank, view *v) {
    order back = inverse(&v->moved);
    for (size_t i = 0; i < v->count; i++) {
        MlirValue value = tsr_op_operand(op, i);
        tsr_shape shape = type_of(value).shape, full = align(&shape, rank);
        v->operands[i] = value;
        if (is_ones(&shape)) continue;
        v->operands[i] = emit_order(b, emit_reshape(b, value, &full), &back);
    }
}

/* ---- ops ------------------------------------------------------------------------------------- */

/* The op on moved operands, with the attributes; its result moved to where it was. */
static void sink(tsr_builder *b, MlirOperation op, view *v, const tsr_attr *changed) {
    order back = inverse(&v->moved);
    tsr_shape shape = type_of(tsr_op_result(op, 0)).shape, moved = reorder(&shape, &back);
    MlirValue y = rebuild(b, op, v->operands, &moved, changed);
    replace(op, emit_order(b, y, &v->moved));
}

static bool sink_elementwise(tsr_builder *b, MlirOperation op) {
    view v;
    uint32_t rank = type_of(tsr_op_result(op, 0)).shape.rank;
    if (!choose_order(op, rank, &v)) return false;
    move_operands(b, op, rank, &v);
    sink(b, op, &v, NULL);
    return true;
}

/* The first operand is transposed; the others, if any, are small. */
static bool read_first(MlirOperation op, view *v) {
    MlirValue from;
    v->count = tsr_op_operand_count(op);
    return v->count <= OPERANDS_MAX && read_transpose(tsr_op_operand(op, 0), &from, &v->moved);
}

/* An attribute `axis`, which names the same dim as before. */
static bool sink_axis(tsr_builder *b, MlirOperation op, view *v) {
    int64_t axis = 0;
    if (!tsr_op_i64(op, "axis", &axis)) return false;
    const tsr_attr changed[] = {{"axis", tsr_attr_make_i64(b->context, v->moved.from[axis])}, {0}};
    sink(b, op, v, changed);
    return true;
}

static bool sink_over_axis(tsr_builder *b, MlirOperation op) {
    view v;
    if (!read_first(op, &v)) return false;
    for (size_t i = 0; i < v.count; i++) v.operands[i] = tsr_op_operand(op, i);
    v.operands[0] = tsr_op_operand(tsr_value_owner(v.operands[0]), 0);
    return sink_axis(b, op, &v);
}

static bool sink_concat(tsr_builder *b, MlirOperation op) {
    view v;
    uint32_t rank = type_of(tsr_op_result(op, 0)).shape.rank;
    if (!choose_order(op, rank, &v)) return false;
    move_operands(b, op, rank, &v);
    for (size_t i = 0; i < v.count; i++) /* an operand of one element was left as it was */
        if (type_of(v.operands[i]).shape.rank != rank) return false;
    return sink_axis(b, op, &v);
}

/* A list with an entry for each dim, in another order; entries are numbers or open dims. Null for
 * any other attribute. */
static MlirAttribute move_list(const tsr_builder *b, MlirOperation op, const char *name,
                               const order *back) {
    int64_t numbers[TSR_RANK_MAX], moved[TSR_RANK_MAX];
    MlirAttribute list = tsr_op_attr(op, name), entries[TSR_RANK_MAX];
    size_t given = 0;
    if (tsr_op_i64s(op, name, TSR_RANK_MAX, numbers, &given)) {
        if (given != back->rank) return (MlirAttribute){NULL};
        for (uint32_t k = 0; k < back->rank; k++) moved[k] = numbers[back->from[k]];
        return tsr_attr_make_i64s(b->context, back->rank, moved);
    }
    if (!mlirAttributeIsAArray(list) || mlirArrayAttrGetNumElements(list) != (intptr_t)back->rank)
        return (MlirAttribute){NULL};
    for (uint32_t k = 0; k < back->rank; k++)
        entries[k] = mlirArrayAttrGetElement(list, back->from[k]);
    return mlirArrayAttrGet(b->context, (intptr_t)back->rank, entries);
}

/* Attributes with an entry for each dim. */
static bool sink_lists(tsr_builder *b, MlirOperation op) {
    static const char *const names[] = {"start", "size", "stride", "low", "high", "interior"};
    tsr_attr changed[TSR_COUNT(names) + 1] = {0};
    size_t count = 0;
    view v;
    if (!read_first(op, &v)) return false;
    order back = inverse(&v.moved);
    for (size_t i = 0; i < TSR_COUNT(names); i++) {
        if (!tsr_op_has(op, names[i])) continue;
        MlirAttribute moved = move_list(b, op, names[i], &back);
        if (mlirAttributeIsNull(moved)) return false;
        changed[count++] = (tsr_attr){names[i], moved};
    }
    v.operands[0] = tsr_op_operand(tsr_value_owner(tsr_op_operand(op, 0)), 0);
    sink(b, op, &v, changed);
    return true;
}

static void sort(size_t count, int64_t *values) {
    for (size_t i = 1; i < count; i++)
        for (size_t k = i; k && values[k - 1] > values[k]; k--) {
            int64_t value = values[k];
            values[k] = values[k - 1];
            values[k - 1] = value;
        }
}

/* The dims that stay keep the order that they had in the result. */
static bool sink_reduce(tsr_builder *b, MlirOperation op) {
    view v;
    int64_t axes[TSR_RANK_MAX], positions[TSR_RANK_MAX];
    size_t count = 0;
    bool gone[TSR_RANK_MAX] = {false};
    order left = {0};
    if (!read_first(op, &v) || v.count != 1 || !tsr_op_i64s(op, "axes", TSR_RANK_MAX, axes, &count))
        return false;
    for (size_t i = 0; i < count; i++) {
        axes[i] = v.moved.from[axes[i]];
        gone[axes[i]] = true;
    }
    int64_t position = 0;
    for (uint32_t i = 0; i < v.moved.rank; i++) {
        positions[i] = position;
        position += !gone[i];
    }
    for (uint32_t i = 0; i < v.moved.rank; i++)
        if (!gone[v.moved.from[i]]) left.from[left.rank++] = positions[v.moved.from[i]];
    sort(count, axes);
    v.operands[0] = tsr_op_operand(tsr_value_owner(tsr_op_operand(op, 0)), 0);
    const tsr_attr changed[] = {{"axes", tsr_attr_make_i64s(b->context, count, axes)}, {0}};
    order back = inverse(&left);
    tsr_shape shape = type_of(tsr_op_result(op, 0)).shape, moved = reorder(&shape, &back);
    MlirValue y = rebuild(b, op, v.operands, &moved, changed);
    replace(op, emit_order(b, y, &left));
    return true;
}

/* Norms over axes: scale and bias stretch to the first operand. */
static bool sink_norm(tsr_builder *b, MlirOperation op) {
    view v;
    int64_t axes[TSR_RANK_MAX];
    size_t count = 0;
    if (!read_first(op, &v) || !tsr_op_i64s(op, "axes", TSR_RANK_MAX, axes, &count)) return false;
    for (size_t i = 0; i < count; i++) axes[i] = v.moved.from[axes[i]];
    sort(count, axes);
    move_operands(b, op, v.moved.rank, &v);
    const tsr_attr changed[] = {{"axes", tsr_attr_make_i64s(b->context, count, axes)}, {0}};
    sink(b, op, &v, changed);
    return true;
}

static bool fold_transpose(tsr_builder *b, MlirOperation op) {
    order o;
    MlirValue from;
    if (!read_transpose(tsr_op_result(op, 0), &from, &o)) return false;
    tsr_shape shape = type_of(from).shape;
    order inner;
    MlirValue under;
    if (!read_transpose(from, &under, &inner) && !moves_nothing(&shape, &o)) return false;
    replace(op, emit_order(b, from, &o));
    return true;
}

typedef bool (*sink_fn)(tsr_builder *b, MlirOperation op);
/* Ops with a way of their own; others are elementwise where their rows stay aligned (ops.def). */
static const sink_fn own[TSR_OP_COUNT] = {
    [TSR_GRAPH_BATCH_NORM] = sink_over_axis,
    [TSR_GRAPH_SOFTMAX_SAFE] = sink_over_axis,
    [TSR_GRAPH_BATCH_NORM_TRAIN] = sink_over_axis,
    [TSR_GRAPH_CUMSUM] = sink_over_axis,
    [TSR_GRAPH_CONCAT] = sink_concat,
    [TSR_GRAPH_SLICE] = sink_lists,
    [TSR_GRAPH_PAD] = sink_lists,
    [TSR_GRAPH_SUM] = sink_reduce,
    [TSR_GRAPH_MEAN] = sink_reduce,
    [TSR_GRAPH_REDUCE_MAX] = sink_reduce,
    [TSR_GRAPH_REDUCE_MIN] = sink_reduce,
    [TSR_GRAPH_REDUCE_PROD] = sink_reduce,
    [TSR_GRAPH_LOGSUMEXP_SAFE] = sink_reduce,
    [TSR_GRAPH_LAYERNORM_SAFE] = sink_norm,
    [TSR_GRAPH_RMSNORM_SAFE] = sink_norm,
    [TSR_GRAPH_TRANSPOSE] = fold_transpose,
};

/* True if each element of the only result depends on one element of each operand. */
static bool is_elementwise(MlirOperation op) {
    static const char *const flows[TSR_OP_COUNT] = {
#define X(ID, mnemonic, Class, KIND, check, gradient, forward, lowering, rows, dims)               \
    [TSR_GRAPH_##ID] = #rows,
#include "compiler/graph/ops.def"
#undef X
    };
    return strcmp(flows[tsr_op_of(op)], "aligned") == 0 && tsr_op_result_count(op) == 1;
}

void tsr_onnx_move_transposes(MlirBlock block) {
    TSR_FOR_EACH_OP(op, block) {
        tsr_op id = tsr_op_of(op);
        tsr_builder b = tsr_builder_before(op);
        if (tsr_op_dialect(id) != TSR_DIALECT_GRAPH) continue;
        if (own[id])
            own[id](&b, op);
        else if (is_elementwise(op))
            sink_elementwise(&b, op);
    }
}
