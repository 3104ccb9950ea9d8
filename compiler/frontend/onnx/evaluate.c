/* SPDX-License-Identifier: Apache-2.0
 *
 * Evaluates small tensors that depend on no input of the model: shape arithmetic. It reads ops of
 * Graph IR, so that every rule whose ops are below is evaluated without code of its own. Integers
 * are exact and wrap to their type; floats are computed as doubles and rounded to their type.
 *
 * Integers of i64 and i32 may depend on open dims: they are polynomials of the symbols, which do
 * not wrap. Where a result is not the same polynomial for all sizes that the dims can have, such as
 * a comparison, it is not known.
 */
#include "compiler/frontend/onnx/importer.h"
#include "compiler/process/guard.h"

#include <math.h>
#include <string.h>

enum { DEPTH_MAX = 2000, OPERANDS_MAX = 64 };

typedef tsr_onnx_known known;

typedef struct evaluation {
    tsr_onnx_importer *im;
    MlirOperation op;
    size_t count;
    const known *operands[OPERANDS_MAX];
} evaluation;

static const known *evaluate(tsr_onnx_importer *im, MlirValue value, size_t depth);

static known *make(tsr_onnx_importer *im, const tsr_type *type) {
    uint64_t count = 0;
    if (!tsr_shape_count(&type->shape, &count) || count > TSR_ONNX_KNOWN_MAX) return NULL;
    known *k = TSR_NEW(&im->arena, known, 1);
    TSR_NEED(k);
    *k = (known){.type = *type, .count = count, .is_float = tsr_dtype_is_float(type->dtype)};
    k->ints = TSR_NEW(&im->arena, int64_t, (size_t)count + 1);
    TSR_NEED(k->ints);
    return k;
}

static bool has_open(const evaluation *e) {
    for (size_t i = 0; i < e->count; i++)
        if (e->operands[i]->open) return true;
    return false;
}

/* A result of an op with an open operand may have open elements. */
static known *make_result(const evaluation *e, size_t index) {
    known *k =
        make(e->im, &(tsr_type){.dtype = tsr_onnx_dtype(tsr_op_result(e->op, index)),
                                .shape = tsr_onnx_type_of(tsr_op_result(e->op, index)).shape});
    if (!k || !has_open(e)) return k;
    k->open = TSR_NEW(&e->im->arena, const tsr_dim_expression *, (size_t)k->count + 1);
    TSR_NEED(k->open);
    return k;
}

/* ---- integers that depend on open dims ------------------------------------------------------- */

static bool is_open(const known *k, uint64_t i) { return k->open && k->open[i]; }

static tsr_dim_expression size_at(const known *k, uint64_t i) {
    return is_open(k, i) ? *k->open[i] : tsr_dim_expression_number(k->ints[i]);
}

/* Of a type in which sizes do not wrap. */
static bool set_size(const evaluation *e, known *k, uint64_t i, const tsr_dim_expression *size) {
    int64_t number;
    bool is_wide = k->type.dtype == TSR_DTYPE_I64 || k->type.dtype == TSR_DTYPE_I32;
    if (!k->open || !is_wide) return false;
    if (tsr_dim_expression_is_number(size, &number)) {
        k->ints[i] = number;
        return k->type.dtype == TSR_DTYPE_I64 || number == (int32_t)number;
    }
    k->open[i] = tsr_arena_memdup(&e->im->arena, size, sizeof *size);
    TSR_NEED(k->open[i]);
    return true;
}

/* Quotients are rounded down here and toward 0 in the program: the same from 0 on. */
static bool divide(const evaluation *e, const tsr_dim_expression *a, const tsr_dim_expression *b,
                   tsr_dim_expression *out) {
    tsr_dim_range low = tsr_onnx_range(e->im, a), by = tsr_onnx_range(e->im, b);
    if (by.low < 1) return false;
    if (tsr_dim_expression_divide(a, b, out)) return true;
    return low.low >= 0 && tsr_dim_expression_floor(&e->im->arena, a, b, out);
}

static bool choose_extreme(const evaluation *e, bool largest, const tsr_dim_expression *a,
                           const tsr_dim_expression *b, tsr_dim_expression *out) {
    tsr_dim_expression difference;
    if (tsr_dim_expression_subtract(a, b, &difference)) {
        tsr_dim_range range = tsr_onnx_range(e->im, &difference);
        bool first = range.low >= 0, second = range.high <= 0;
        if (first || second) {
            *out = first == largest ? *a : *b;
            return true;
        }
    }
    return largest ? tsr_dim_expression_max(&e->im->arena, a, b, out)
                   : tsr_dim_expression_min(&e->im->arena, a, b, out);
}

static bool size_binary(const evaluation *e, tsr_op op, const tsr_dim_expression *a,
                        const tsr_dim_expression *b, tsr_dim_expression *out) {
    switch (op) {
    case TSR_GRAPH_ADD:
        return tsr_dim_expression_add(a, b, out);
    case TSR_GRAPH_SUB:
        return tsr_dim_expression_subtract(a, b, out);
    case TSR_GRAPH_MUL:
        return tsr_dim_expression_multiply(a, b, out);
    case TSR_GRAPH_DIV:
        return divide(e, a, b, out);
    case TSR_GRAPH_MAX:
    case TSR_GRAPH_MIN:
        return choose_extreme(e, op == TSR_GRAPH_MAX, a, b, out);
    default:
        return false;
    }
}

/* The sign of a - b, if it is the same for all sizes. */
static bool order_sizes(const evaluation *e, const tsr_dim_expression *a,
                        const tsr_dim_expression *b, int *out_low, int *out_high) {
    tsr_dim_expression difference;
    if (!tsr_dim_expression_subtract(a, b, &difference)) return false;
    tsr_dim_range range = tsr_onnx_range(e->im, &difference);
    *out_low = (range.low > 0) - (range.low < 0);
    *out_high = (range.high > 0) - (range.high < 0);
    return true;
}

/* ---- numbers ---- */

/* The value as the integer type holds it: wrapped. A ui64 has the bits of an i64. */
static int64_t wrap(tsr_dtype dtype, int64_t value) {
    unsigned unused = 64 - tsr_dtype_bits(dtype);
    if (dtype == TSR_DTYPE_I1) return value != 0;
    uint64_t high = (uint64_t)value << unused;
    return tsr_dtype_is_signed(dtype) ? (int64_t)high >> unused : (int64_t)(high >> unused);
}

static double round_to(tsr_dtype dtype, double value) {
    uint64_t bits = 0;
    tsr_dtype_write(dtype, value, &bits, 0);
    return tsr_dtype_read(dtype, &bits, 0);
}

static void read_elements(const tsr_tensor *from, known *to) {
    size_t size = tsr_dtype_size(from->dtype);
    for (uint64_t i = 0; i < to->count; i++) {
        uint64_t bits = 0; /* elements of a file may be unaligned */
        memcpy(&bits, (const char *)from->data + i * size, size);
        if (to->is_float)
            to->floats[i] = tsr_dtype_read(from->dtype, &bits, 0);
        else if (from->dtype == TSR_DTYPE_I64)
            memcpy(&to->ints[i], &bits, sizeof bits);
        else
            to->ints[i] = (int64_t)tsr_dtype_read(from->dtype, &bits, 0);
    }
}

/* Row-major strides, 0 for dims of size 1 that are stretched to `full`. */
static void broadcast_strides(const tsr_shape *from, const tsr_shape *full,
                              uint64_t out[static TSR_RANK_MAX]) {
    uint64_t step = 1;
    uint32_t added = full->rank - from->rank;
    for (uint32_t i = full->rank; i-- > 0;) {
        bool has = i >= added && from->dims[i - added] != 1;
        out[i] = has ? step : 0;
        if (i >= added) step *= from->dims[i - added];
    }
}

/* Calls `visit` for each element of `shape` with the index in an array with these strides. */
static uint64_t at_strides(const tsr_shape *shape, const uint64_t *strides, uint64_t index) {
    uint64_t at = 0;
    for (uint32_t i = shape->rank; i-- > 0; index /= shape->dims[i])
        at += index % shape->dims[i] * strides[i];
    return at;
}

/* ---- elementwise ---- */

static int64_t int_div(int64_t a, int64_t b) {
    if (b == 0) return 0;
    return b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}

static bool int_binary(tsr_op op, int64_t a, int64_t b, int64_t *out) {
    switch (op) {
    case TSR_GRAPH_ADD:
        *out = (int64_t)((uint64_t)a + (uint64_t)b);
        return true;
    case TSR_GRAPH_SUB:
        *out = (int64_t)((uint64_t)a - (uint64_t)b);
        return true;
    case TSR_GRAPH_MUL:
        *out = (int64_t)((uint64_t)a * (uint64_t)b);
        return true;
    case TSR_GRAPH_DIV:
        *out = int_div(a, b);
        return true;
    case TSR_GRAPH_MAX:
        *out = a > b ? a : b;
        return true;
    case TSR_GRAPH_MIN:
        *out = a < b ? a : b;
        return true;
    case TSR_GRAPH_AND:
        *out = a & b;
        return true;
    case TSR_GRAPH_OR:
        *out = a | b;
        return true;
    case TSR_GRAPH_XOR:
        *out = a ^ b;
        return true;
    default:
        return false;
    }
}

static bool float_binary(tsr_op op, double a, double b, double *out) {
    switch (op) {
    case TSR_GRAPH_ADD:
        *out = a + b;
        return true;
    case TSR_GRAPH_SUB:
        *out = a - b;
        return true;
    case TSR_GRAPH_MUL:
        *out = a * b;
        return true;
    case TSR_GRAPH_DIV:
        *out = a / b;
        return true;
    case TSR_GRAPH_MAX:
        *out = isnan(a) || isnan(b) ? NAN : fmax(a, b);
        return true;
    case TSR_GRAPH_MIN:
        *out = isnan(a) || isnan(b) ? NAN : fmin(a, b);
        return true;
    default:
        return false;
    }
}

static const known *binary(const evaluation *e) {
    tsr_op op = tsr_op_of(e->op);
    const known *a = e->operands[0], *b = e->operands[1];
    known *r = make_result(e, 0);
    uint64_t sa[TSR_RANK_MAX], sb[TSR_RANK_MAX];
    if (!r || a->is_float != r->is_float || b->is_float != r->is_float) return NULL;
    broadcast_strides(&a->type.shape, &r->type.shape, sa);
    broadcast_strides(&b->type.shape, &r->type.shape, sb);
    for (uint64_t i = 0; i < r->count; i++) {
        uint64_t ia = at_strides(&r->type.shape, sa, i), ib = at_strides(&r->type.shape, sb, i);
        if (is_open(a, ia) || is_open(b, ib)) {
            tsr_dim_expression x = size_at(a, ia), y = size_at(b, ib), z;
            if (!size_binary(e, op, &x, &y, &z) || !set_size(e, r, i, &z)) return NULL;
            continue;
        }
        bool done = r->is_float ? float_binary(op, a->floats[ia], b->floats[ib], &r->floats[i])
                                : int_binary(op, a->ints[ia], b->ints[ib], &r->ints[i]);
        if (!done) return NULL;
        if (r->is_float)
            r->floats[i] = round_to(r->type.dtype, r->floats[i]);
        else
            r->ints[i] = wrap(r->type.dtype, r->ints[i]);
    }
    return r;
}

static double as_double(const known *k, uint64_t i) {
    return k->is_float ? k->floats[i] : (double)k->ints[i];
}

static bool holds(tsr_predicate predicate, int order, bool unordered) {
    switch (predicate) {
    case TSR_PREDICATE_EQ:
        return !unordered && order == 0;
    case TSR_PREDICATE_NE:
        return unordered || order != 0;
    case TSR_PREDICATE_LT:
        return !unordered && order < 0;
    case TSR_PREDICATE_LE:
        return !unordered && order <= 0;
    case TSR_PREDICATE_GT:
        return !unordered && order > 0;
    case TSR_PREDICATE_GE:
        return !unordered && order >= 0;
    case TSR_PREDICATE_COUNT:
        break;
    }
    return false;
}

/* The comparison of sizes, if it is the same for all. */
static bool compare_sizes(const evaluation *e, tsr_predicate predicate, const tsr_dim_expression *a,
                          const tsr_dim_expression *b, int64_t *out_truth) {
    int low = 0, high = 0;
    if (!order_sizes(e, a, b, &low, &high)) return false;
    *out_truth = holds(predicate, low, false);
    for (int order = low + 1; order <= high; order++)
        if (holds(predicate, order, false) != (*out_truth != 0)) return false;
    return true;
}

static const known *compare(const evaluation *e) {
    const known *a = e->operands[0], *b = e->operands[1];
    known *r = make_result(e, 0);
    tsr_predicate predicate;
    uint64_t sa[TSR_RANK_MAX], sb[TSR_RANK_MAX];
    if (!r || !tsr_graph_predicate(e->op, &predicate)) return NULL;
    broadcast_strides(&a->type.shape, &r->type.shape, sa);
    broadcast_strides(&b->type.shape, &r->type.shape, sb);
    for (uint64_t i = 0; i < r->count; i++) {
        uint64_t ia = at_strides(&r->type.shape, sa, i), ib = at_strides(&r->type.shape, sb, i);
        if (is_open(a, ia) || is_open(b, ib)) {
            tsr_dim_expression x = size_at(a, ia), y = size_at(b, ib);
            if (!compare_sizes(e, predicate, &x, &y, &r->ints[i])) return NULL;
            continue;
        }
        bool unordered = a->is_float && (isnan(a->floats[ia]) || isnan(b->floats[ib]));
        int order = a->is_float ? (a->floats[ia] > b->floats[ib]) - (a->floats[ia] < b->floats[ib])
                                : (a->ints[ia] > b->ints[ib]) - (a->ints[ia] < b->ints[ib]);
        r->ints[i] = holds(predicate, order, unordered);
    }
    return r;
}

/* Copies an element; both have one type. */
static void copy(const known *from, uint64_t at, known *to, uint64_t index) {
    to->ints[index] = from->ints[at]; /* either kind has 8 bytes */
    if (from->open) to->open[index] = from->open[at];
}

static const known *where(const evaluation *e) {
    known *r = make_result(e, 0);
    uint64_t strides[3][TSR_RANK_MAX];
    if (!r) return NULL;
    for (size_t k = 0; k < 3; k++)
        broadcast_strides(&e->operands[k]->type.shape, &r->type.shape, strides[k]);
    for (uint64_t i = 0; i < r->count; i++) {
        bool first = e->operands[0]->ints[at_strides(&r->type.shape, strides[0], i)] != 0;
        size_t k = first ? 1 : 2;
        copy(e->operands[k], at_strides(&r->type.shape, strides[k], i), r, i);
    }
    return r;
}

static bool unary_one(tsr_op op, const known *x, uint64_t i, known *r) {
    double f = as_double(x, i);
    int64_t n = x->is_float ? 0 : x->ints[i];
    switch (op) {
    case TSR_GRAPH_NEG:
        r->is_float ? (void)(r->floats[i] = -f)
                    : (void)(r->ints[i] = wrap(r->type.dtype, (int64_t)(0 - (uint64_t)n)));
        return true;
    case TSR_GRAPH_ABS:
        r->is_float
            ? (void)(r->floats[i] = fabs(f))
            : (void)(r->ints[i] = n < 0 ? wrap(r->type.dtype, (int64_t)(0 - (uint64_t)n)) : n);
        return true;
    case TSR_GRAPH_NOT:
        r->ints[i] = r->type.dtype == TSR_DTYPE_I1 ? !n : wrap(r->type.dtype, ~n);
        return true;
    case TSR_GRAPH_FLOOR:
        r->floats[i] = floor(f);
        return true;
    case TSR_GRAPH_CEIL:
        r->floats[i] = ceil(f);
        return true;
    case TSR_GRAPH_ROUND:
        r->floats[i] = nearbyint(f);
        return true;
    case TSR_GRAPH_SQRT:
        r->floats[i] = round_to(r->type.dtype, sqrt(f));
        return true;
    case TSR_GRAPH_SIGN:
        r->is_float ? (void)(r->floats[i] = f > 0   ? 1
                                            : f < 0 ? -1
                                                    : f)
                    : (void)(r->ints[i] = (n > 0) - (n < 0));
        return true;
    default:
        return false;
    }
}

/* neg, and what changes nothing from 0 on: abs. */
static bool unary_size(const evaluation *e, known *r, uint64_t i) {
    tsr_op op = tsr_op_of(e->op);
    tsr_dim_expression x = size_at(e->operands[0], i), minus = tsr_dim_expression_number(-1);
    if (op == TSR_GRAPH_ABS) return tsr_onnx_range(e->im, &x).low >= 0 && set_size(e, r, i, &x);
    return op == TSR_GRAPH_NEG && tsr_dim_expression_multiply(&x, &minus, &x) &&
           set_size(e, r, i, &x);
}

static const known *unary(const evaluation *e) {
    known *r = make_result(e, 0);
    for (uint64_t i = 0; r && i < r->count; i++)
        if (is_open(e->operands[0], i) ? !unary_size(e, r, i)
                                       : !unary_one(tsr_op_of(e->op), e->operands[0], i, r))
            return NULL;
    return r;
}

/* Toward zero, saturating; NaN gives 0. */
static int64_t to_integer(tsr_dtype dtype, double value) {
    if (dtype == TSR_DTYPE_I1) return value != 0;
    if (isnan(value)) return 0;
    value = trunc(value);
    if (!tsr_dtype_holds(dtype, value))
        return value < 0 ? tsr_dtype_lowest(dtype) : (int64_t)tsr_dtype_highest(dtype);
    return value < 0 ? (int64_t)value : (int64_t)(uint64_t)value;
}

static const known *cast(const evaluation *e) {
    const known *x = e->operands[0];
    known *r = make_result(e, 0);
    for (uint64_t i = 0; r && i < r->count; i++) {
        if (is_open(x, i)) {
            tsr_dim_expression size = size_at(x, i), zero = tsr_dim_expression_number(0);
            bool done = r->type.dtype == TSR_DTYPE_I1
                            ? compare_sizes(e, TSR_PREDICATE_NE, &size, &zero, &r->ints[i])
                            : set_size(e, r, i, &size);
            if (!done) return NULL;
            continue;
        }
        if (r->is_float)
            r->floats[i] = round_to(r->type.dtype, as_double(x, i));
        else
            r->ints[i] = x->is_float ? to_integer(r->type.dtype, x->floats[i])
                                     : wrap(r->type.dtype, x->ints[i]);
    }
    return r;
}

/* ---- moving elements ---- */

static const known *reshape(const evaluation *e) {
    known *r = make_result(e, 0);
    for (uint64_t i = 0; r && i < r->count; i++) copy(e->operands[0], i, r, i);
    return r;
}

static const known *broadcast(const evaluation *e) {
    known *r = make_result(e, 0);
    uint64_t strides[TSR_RANK_MAX];
    if (!r) return NULL;
    broadcast_strides(&e->operands[0]->type.shape, &r->type.shape, strides);
    for (uint64_t i = 0; i < r->count; i++)
        copy(e->operands[0], at_strides(&r->type.shape, strides, i), r, i);
    return r;
}

static void dense_strides(const tsr_shape *shape, uint64_t out[static TSR_RANK_MAX]) {
    uint64_t step = 1;
    for (uint32_t i = shape->rank; i-- > 0; step *= shape->dims[i]) out[i] = step;
}

static const known *transpose(const evaluation *e) {
    known *r = make_result(e, 0);
    int64_t permutation[TSR_RANK_MAX];
    uint64_t dense[TSR_RANK_MAX], strides[TSR_RANK_MAX];
    size_t count = 0;
    if (!r || !tsr_op_i64s(e->op, "permutation", TSR_RANK_MAX, permutation, &count)) return NULL;
    dense_strides(&e->operands[0]->type.shape, dense);
    for (size_t i = 0; i < count; i++) strides[i] = dense[permutation[i]];
    for (uint64_t i = 0; i < r->count; i++)
        copy(e->operands[0], at_strides(&r->type.shape, strides, i), r, i);
    return r;
}

static const known *slice(const evaluation *e) {
    known *r = make_result(e, 0);
    int64_t start[TSR_RANK_MAX], stride[TSR_RANK_MAX];
    uint64_t dense[TSR_RANK_MAX], strides[TSR_RANK_MAX], first = 0;
    size_t count = 0, given = 0;
    if (!r || !tsr_op_i64s(e->op, "start", TSR_RANK_MAX, start, &count)) return NULL;
    if (!tsr_op_i64s(e->op, "stride", TSR_RANK_MAX, stride, &given)) given = 0;
    dense_strides(&e->operands[0]->type.shape, dense);
    for (size_t i = 0; i < count; i++) {
        first += (uint64_t)start[i] * dense[i];
        strides[i] = dense[i] * (given ? (uint64_t)stride[i] : 1);
    }
    for (uint64_t i = 0; i < r->count; i++)
        copy(e->operands[0], first + at_strides(&r->type.shape, strides, i), r, i);
    return r;
}

static const known *concat(const evaluation *e) {
    known *r = make_result(e, 0);
    int64_t axis = 0;
    uint64_t at = 0, inner = 1, outer = 1;
    if (!r || !tsr_op_i64(e->op, "axis", &axis)) return NULL;
    for (uint32_t i = 0; i < r->type.shape.rank; i++)
        *(i <= (uint32_t)axis ? &outer : &inner) *= i == (uint32_t)axis ? 1 : r->type.shape.dims[i];
    uint64_t row = inner * r->type.shape.dims[axis];
    for (size_t k = 0; k < e->count; k++) {
        uint64_t size = inner * e->operands[k]->type.shape.dims[axis];
        for (uint64_t o = 0; o < outer; o++)
            for (uint64_t i = 0; i < size; i++)
                copy(e->operands[k], o * size + i, r, o * row + at + i);
        at += size;
    }
    return r;
}

static const known *gather(const evaluation *e) {
    const known *x = e->operands[0], *indices = e->operands[1];
    known *r = make_result(e, 0);
    int64_t axis = 0;
    uint64_t inner = 1, outer = 1;
    if (!r || indices->open || !tsr_op_i64(e->op, "axis", &axis)) return NULL;
    const tsr_shape *shape = &x->type.shape;
    for (uint32_t i = 0; i < shape->rank; i++)
        if (i != (uint32_t)axis) *(i < (uint32_t)axis ? &outer : &inner) *= shape->dims[i];
    for (uint64_t o = 0; o < outer; o++)
        for (uint64_t k = 0; k < indices->count; k++) {
            int64_t position = indices->ints[k];
            if (position < 0 || (uint64_t)position >= shape->dims[axis]) return NULL;
            uint64_t from = (o * shape->dims[axis] + (uint64_t)position) * inner;
            for (uint64_t i = 0; i < inner; i++)
                copy(x, from + i, r, (o * indices->count + k) * inner + i);
        }
    return r;
}

static const known *iota(const evaluation *e) {
    known *r = make_result(e, 0);
    int64_t axis = 0;
    uint64_t inner = 1;
    if (!r || !tsr_op_i64(e->op, "axis", &axis)) return NULL;
    for (uint32_t i = (uint32_t)axis + 1; i < r->type.shape.rank; i++)
        inner *= r->type.shape.dims[i];
    for (uint64_t i = 0; i < r->count; i++) {
        uint64_t position = i / inner % r->type.shape.dims[axis];
        r->is_float ? (void)(r->floats[i] = (double)position)
                    : (void)(r->ints[i] = (int64_t)position);
    }
    return r;
}

/* ---- reductions of integers ---- */

static const known *reduce(const evaluation *e) {
    tsr_op id = tsr_op_of(e->op);
    tsr_op step = id == TSR_GRAPH_SUM           ? TSR_GRAPH_ADD
                  : id == TSR_GRAPH_REDUCE_PROD ? TSR_GRAPH_MUL
                  : id == TSR_GRAPH_REDUCE_MAX  ? TSR_GRAPH_MAX
                                                : TSR_GRAPH_MIN;
    const known *x = e->operands[0];
    known *r = make_result(e, 0);
    int64_t axes[TSR_RANK_MAX];
    uint64_t strides[TSR_RANK_MAX] = {0}, inner = 1;
    size_t count = 0, left = 0;
    bool adds = id == TSR_GRAPH_SUM || id == TSR_GRAPH_REDUCE_PROD;
    if (!r || r->is_float || !tsr_op_i64s(e->op, "axes", TSR_RANK_MAX, axes, &count)) return NULL;
    if (x->count == 0 && !adds) return NULL;
    left = count;
    for (uint32_t i = x->type.shape.rank; i-- > 0;) {
        bool removed = left && axes[left - 1] == (int64_t)i;
        left -= removed;
        strides[i] = removed ? 0 : inner;
        inner *= removed ? 1 : x->type.shape.dims[i];
    }
    uint8_t *seen = TSR_NEW(&e->im->arena, uint8_t, (size_t)r->count + 1);
    TSR_NEED(seen);
    for (uint64_t i = 0; i < r->count; i++) r->ints[i] = id == TSR_GRAPH_REDUCE_PROD;
    for (uint64_t i = 0; i < x->count; i++) {
        uint64_t at = at_strides(&x->type.shape, strides, i);
        if (is_open(x, i) || is_open(r, at)) {
            tsr_dim_expression a = size_at(r, at), b = size_at(x, i);
            r->open[at] = NULL;
            if (!adds && !seen[at])
                a = b;
            else if (!size_binary(e, step, &a, &b, &a))
                return NULL;
            if (!set_size(e, r, at, &a)) return NULL;
            seen[at] = true;
            continue;
        }
        if (!adds && !seen[at])
            r->ints[at] = x->ints[i];
        else
            int_binary(step, r->ints[at], x->ints[i], &r->ints[at]);
        r->ints[at] = wrap(r->type.dtype, r->ints[at]);
        seen[at] = true;
    }
    return r;
}

static const known *cumsum(const evaluation *e) {
    const known *x = e->operands[0];
    known *r = make_result(e, 0);
    int64_t axis = 0;
    uint64_t inner = 1;
    if (!r || r->is_float || r->open || tsr_op_flag(e->op, "reverse") ||
        !tsr_op_i64(e->op, "axis", &axis))
        return NULL;
    bool exclusive = tsr_op_flag(e->op, "exclusive");
    for (uint32_t i = (uint32_t)axis + 1; i < r->type.shape.rank; i++)
        inner *= r->type.shape.dims[i];
    for (uint64_t i = 0; i < r->count; i++) {
        bool first = i / inner % r->type.shape.dims[axis] == 0;
        int64_t before = first ? 0 : r->ints[i - inner];
        int64_t added = !exclusive ? x->ints[i] : first ? 0 : x->ints[i - inner];
        r->ints[i] = wrap(r->type.dtype, (int64_t)((uint64_t)before + (uint64_t)added));
    }
    return r;
}

/* ---- the table, and the walk ---- */

static const known *(*const evaluators[TSR_OP_COUNT])(const evaluation *e) = {
    [TSR_GRAPH_ADD] = binary,          [TSR_GRAPH_SUB] = binary,
    [TSR_GRAPH_MUL] = binary,          [TSR_GRAPH_DIV] = binary,
    [TSR_GRAPH_MAX] = binary,          [TSR_GRAPH_MIN] = binary,
    [TSR_GRAPH_AND] = binary,          [TSR_GRAPH_OR] = binary,
    [TSR_GRAPH_XOR] = binary,          [TSR_GRAPH_COMPARE] = compare,
    [TSR_GRAPH_WHERE] = where,         [TSR_GRAPH_NEG] = unary,
    [TSR_GRAPH_ABS] = unary,           [TSR_GRAPH_NOT] = unary,
    [TSR_GRAPH_FLOOR] = unary,         [TSR_GRAPH_CEIL] = unary,
    [TSR_GRAPH_ROUND] = unary,         [TSR_GRAPH_SQRT] = unary,
    [TSR_GRAPH_SIGN] = unary,          [TSR_GRAPH_CAST] = cast,
    [TSR_GRAPH_RESHAPE] = reshape,     [TSR_GRAPH_BROADCAST] = broadcast,
    [TSR_GRAPH_TRANSPOSE] = transpose, [TSR_GRAPH_SLICE] = slice,
    [TSR_GRAPH_CONCAT] = concat,       [TSR_GRAPH_GATHER] = gather,
    [TSR_GRAPH_IOTA] = iota,           [TSR_GRAPH_SUM] = reduce,
    [TSR_GRAPH_REDUCE_PROD] = reduce,  [TSR_GRAPH_REDUCE_MAX] = reduce,
    [TSR_GRAPH_REDUCE_MIN] = reduce,   [TSR_GRAPH_CUMSUM] = cumsum,
};

static const known *read_sizes(tsr_onnx_importer *im, MlirOperation op) {
    tsr_type type = tsr_onnx_type_of(tsr_op_result(op, 0));
    MlirAttribute list = tsr_op_attr(op, "values");
    known *k = make(im, &type);
    const evaluation e = {.im = im, .op = op};
    if (!k) return NULL;
    k->open = TSR_NEW(&im->arena, const tsr_dim_expression *, (size_t)k->count + 1);
    TSR_NEED(k->open);
    for (uint64_t i = 0; i < k->count; i++) {
        MlirAttribute entry = mlirArrayAttrGetElement(list, (intptr_t)i);
        uint64_t dim;
        if (tsr_attr_i64(entry, &k->ints[i])) continue;
        if (!tsr_dim_read(entry, &dim)) return NULL;
        tsr_dim_expression size = tsr_dim_to_expression(&im->arena, dim);
        if (!set_size(&e, k, i, &size)) return NULL;
    }
    return k;
}

static const known *read_constant(tsr_onnx_importer *im, MlirOperation op) {
    tsr_arena scratch = {0};
    tsr_tensor view = {0};
    tsr_type type;
    known *k = NULL;
    if (tsr_onnx_count(tsr_op_result(op, 0)) <= TSR_ONNX_KNOWN_MAX &&
        tsr_attr_elements(tsr_op_attr(op, "value"), &scratch, &type, &view.data)) {
        view.dtype = type.dtype;
        k = make(im, &type);
        if (k) read_elements(&view, k);
    }
    tsr_arena_finish(&scratch);
    return k;
}

static const known *read_param(tsr_onnx_importer *im, MlirOperation op) {
    const tsr_onnx_param *param = tsr_onnx_find_param(im, op);
    tsr_tensor view;
    if (!param || tsr_onnx_count(tsr_op_result(op, 0)) > TSR_ONNX_KNOWN_MAX) return NULL;
    if (tsr_onnx_elements(im->ctx, &im->files, param->tensor, &im->arena, &view).code) {
        tsr_error_clear(im->ctx);
        return NULL;
    }
    known *k = make(im, &(tsr_type){.dtype = view.dtype, .shape = view.shape});
    if (k) read_elements(&view, k);
    return k;
}

/* Integers that turned out to be numbers. */
static const known *simplify(const known *k) {
    bool any = false;
    if (!k || !k->open) return k;
    for (uint64_t i = 0; i < k->count; i++) any = any || k->open[i];
    if (!any) ((known *)(uintptr_t)k)->open = NULL;
    return k;
}

static const known *evaluate_op(tsr_onnx_importer *im, MlirOperation op, size_t depth) {
    tsr_op id = tsr_op_of(op);
    evaluation e = {.im = im, .op = op, .count = tsr_op_operand_count(op)};
    /* The numbers here are i64. */
    if (tsr_onnx_dtype(tsr_op_result(op, 0)) == TSR_DTYPE_UI64) return NULL;
    if (id == TSR_GRAPH_CONSTANT) return read_constant(im, op);
    if (id == TSR_GRAPH_PARAM) return read_param(im, op);
    if (id == TSR_GRAPH_SIZES) return read_sizes(im, op);
    if (id == TSR_OP_NONE || !evaluators[id] || e.count > OPERANDS_MAX) return NULL;
    if (tsr_onnx_count(tsr_op_result(op, 0)) > TSR_ONNX_KNOWN_MAX) return NULL;
    for (size_t i = 0; i < e.count; i++) {
        e.operands[i] = evaluate(im, tsr_op_operand(op, i), depth + 1);
        if (!e.operands[i]) return NULL;
    }
    return simplify(evaluators[id](&e));
}

static const known *evaluate(tsr_onnx_importer *im, MlirValue value, size_t depth) {
    uint32_t found = tsr_value_map_get(&im->known, value);
    if (found != UINT32_MAX) return im->evaluated[found].known;
    if (!mlirValueIsAOpResult(value) || depth == DEPTH_MAX) return NULL;
    const known *k = evaluate_op(im, mlirOpResultGetOwner(value), depth);
    tsr_onnx_grow(&im->arena, (void **)&im->evaluated, im->evaluated_count, &im->evaluated_capacity,
                  sizeof *im->evaluated);
    im->evaluated[im->evaluated_count] = (tsr_onnx_evaluated){.known = k};
    TSR_NEED(tsr_value_map_set(&im->known, &im->arena, value, (uint32_t)im->evaluated_count)
                 ? im
                 : NULL);
    im->evaluated_count++;
    return k;
}

/* The value is part of the program, so the parameters that it is computed from are not trained. */
static void fix_params(tsr_onnx_importer *im, MlirValue value) {
    uint32_t number = tsr_value_map_get(&im->known, value);
    MlirOperation op = tsr_value_owner(value);
    if (number == UINT32_MAX || im->evaluated[number].is_fixed) return;
    im->evaluated[number].is_fixed = true;
    if (tsr_op_is(op, TSR_GRAPH_PARAM)) {
        const tsr_onnx_param *param = tsr_onnx_find_param(im, op);
        if (param) im->params[param - im->params].is_fixed = true;
    }
    for (size_t i = 0; i < tsr_op_operand_count(op); i++) fix_params(im, tsr_op_operand(op, i));
}

const tsr_onnx_known *tsr_onnx_evaluate(tsr_onnx_importer *importer, MlirValue value) {
    const known *k = mlirValueIsNull(value) ? NULL : evaluate(importer, value, 0);
    return k && k->open ? NULL : tsr_onnx_evaluate_open(importer, value);
}

const tsr_onnx_known *tsr_onnx_evaluate_open(tsr_onnx_importer *importer, MlirValue value) {
    const known *k = mlirValueIsNull(value) ? NULL : evaluate(importer, value, 0);
    if (k) fix_params(importer, value);
    return k;
}
