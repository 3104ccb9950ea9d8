/* SPDX-License-Identifier: Apache-2.0
 *
 * Evaluates small tensors that depend on no input of the model: shape arithmetic. It reads ops of
 * Graph IR, so that every rule whose ops are below is evaluated without code of its own. Integers
 * are exact and wrap to their type; floats are computed as doubles and rounded to their type.
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

static known *make_result(const evaluation *e, size_t index) {
    return make(e->im, &(tsr_type){.dtype = tsr_onnx_dtype(tsr_op_result(e->op, index)),
                                   .shape = tsr_onnx_type_of(tsr_op_result(e->op, index)).shape});
}

/* ---- numbers ---- */

/* The value as the dtype holds it: wrapped, or rounded. */
static int64_t wrap(tsr_dtype dtype, int64_t value) {
    switch (dtype) {
    case TSR_DTYPE_I32:
        return (int32_t)value;
    case TSR_DTYPE_I8:
        return (int8_t)value;
    case TSR_DTYPE_UI8:
        return (uint8_t)value;
    case TSR_DTYPE_I1:
        return value != 0;
    default:
        return value;
    }
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
        r->ints[i] = !n;
        return true;
    case TSR_GRAPH_FLOOR:
        r->floats[i] = floor(f);
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

static const known *unary(const evaluation *e) {
    known *r = make_result(e, 0);
    for (uint64_t i = 0; r && i < r->count; i++)
        if (!unary_one(tsr_op_of(e->op), e->operands[0], i, r)) return NULL;
    return r;
}

/* Toward zero, saturating; NaN gives 0. */
static int64_t to_integer(tsr_dtype dtype, double value) {
    const double low = dtype == TSR_DTYPE_I64   ? -0x1p63
                       : dtype == TSR_DTYPE_I32 ? -0x1p31
                       : dtype == TSR_DTYPE_I8  ? -128
                                                : 0;
    if (dtype == TSR_DTYPE_I1) return value != 0;
    if (isnan(value)) return 0;
    if (value <= low) return (int64_t)low;
    if (dtype == TSR_DTYPE_I64 && value >= 0x1p63) return INT64_MAX;
    const double high = dtype == TSR_DTYPE_I32 ? 0x1p31 - 1 : dtype == TSR_DTYPE_I8 ? 127 : 255;
    if (dtype != TSR_DTYPE_I64 && value >= high) return (int64_t)high;
    return (int64_t)value;
}

static const known *cast(const evaluation *e) {
    const known *x = e->operands[0];
    known *r = make_result(e, 0);
    for (uint64_t i = 0; r && i < r->count; i++) {
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
    if (!r || !tsr_op_i64(e->op, "axis", &axis)) return NULL;
    const tsr_shape *shape = &x->type.shape;
    for (uint32_t i = 0; i < shape->rank; i++)
        if (i != (uint32_t)axis) *(i < (uint32_t)axis ? &outer : &inner) *= shape->dims[i];
    for (uint64_t o = 0; o < outer; o++)
        for (uint64_t k = 0; k < indices->count; k++) {
            int64_t place = indices->ints[k];
            if (place < 0 || (uint64_t)place >= shape->dims[axis]) return NULL;
            uint64_t from = (o * shape->dims[axis] + (uint64_t)place) * inner;
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
        uint64_t place = i / inner % r->type.shape.dims[axis];
        r->is_float ? (void)(r->floats[i] = (double)place) : (void)(r->ints[i] = (int64_t)place);
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
    if (!r || r->is_float || tsr_op_flag(e->op, "reverse") || !tsr_op_i64(e->op, "axis", &axis))
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
    [TSR_GRAPH_FLOOR] = unary,         [TSR_GRAPH_SQRT] = unary,
    [TSR_GRAPH_SIGN] = unary,          [TSR_GRAPH_CAST] = cast,
    [TSR_GRAPH_RESHAPE] = reshape,     [TSR_GRAPH_BROADCAST] = broadcast,
    [TSR_GRAPH_TRANSPOSE] = transpose, [TSR_GRAPH_SLICE] = slice,
    [TSR_GRAPH_CONCAT] = concat,       [TSR_GRAPH_GATHER] = gather,
    [TSR_GRAPH_IOTA] = iota,           [TSR_GRAPH_SUM] = reduce,
    [TSR_GRAPH_REDUCE_PROD] = reduce,  [TSR_GRAPH_REDUCE_MAX] = reduce,
    [TSR_GRAPH_REDUCE_MIN] = reduce,   [TSR_GRAPH_CUMSUM] = cumsum,
};

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
    if (!param || tsr_onnx_count(param->value) > TSR_ONNX_KNOWN_MAX) return NULL;
    if (tsr_onnx_elements(im->ctx, &im->files, param->tensor, &im->arena, &view).code) {
        tsr_error_clear(im->ctx);
        return NULL;
    }
    known *k = make(im, &(tsr_type){.dtype = view.dtype, .shape = view.shape});
    if (k) read_elements(&view, k);
    return k;
}

static const known *evaluate_op(tsr_onnx_importer *im, MlirOperation op, size_t depth) {
    tsr_op id = tsr_op_of(op);
    evaluation e = {.im = im, .op = op, .count = tsr_op_operand_count(op)};
    if (id == TSR_GRAPH_CONSTANT) return read_constant(im, op);
    if (id == TSR_GRAPH_PARAM) return read_param(im, op);
    if (id == TSR_OP_NONE || !evaluators[id] || e.count > OPERANDS_MAX) return NULL;
    if (tsr_onnx_count(tsr_op_result(op, 0)) > TSR_ONNX_KNOWN_MAX) return NULL;
    for (size_t i = 0; i < e.count; i++) {
        e.operands[i] = evaluate(im, tsr_op_operand(op, i), depth + 1);
        if (!e.operands[i]) return NULL;
    }
    return evaluators[id](&e);
}

static const known *evaluate(tsr_onnx_importer *im, MlirValue value, size_t depth) {
    uint32_t found = tsr_value_map_get(&im->known, value);
    if (found != UINT32_MAX) return im->evaluated[found];
    if (!mlirValueIsAOpResult(value) || depth == DEPTH_MAX) return NULL;
    const known *k = evaluate_op(im, mlirOpResultGetOwner(value), depth);
    tsr_onnx_grow(&im->arena, (void **)&im->evaluated, im->evaluated_count, &im->evaluated_capacity,
                  sizeof *im->evaluated);
    im->evaluated[im->evaluated_count] = k;
    TSR_NEED(tsr_value_map_set(&im->known, &im->arena, value, (uint32_t)im->evaluated_count)
                 ? im
                 : NULL);
    im->evaluated_count++;
    return k;
}

const tsr_onnx_known *tsr_onnx_evaluate(tsr_onnx_importer *importer, MlirValue value) {
    return mlirValueIsNull(value) ? NULL : evaluate(importer, value, 0);
}
