/* SPDX-License-Identifier: Apache-2.0
 *
 * Emits ops of Graph IR for rules, beside those of ../emitter.c.
 */
#include "compiler/frontend/stablehlo/rules.h"
#include "compiler/shim/shim.h"

#include <inttypes.h>

static const MlirValue null_value = {NULL};

/* ---- types ---- */

tsr_type tsr_hlo_type(MlirValue value) { return tsr_emitter_type(value); }

uint32_t tsr_hlo_rank(MlirValue value) { return tsr_emitter_rank(value); }
tsr_dtype tsr_hlo_dtype(MlirValue value) { return tsr_hlo_type(value).dtype; }
bool tsr_hlo_is_float(MlirValue value) { return tsr_dtype_is_float(tsr_hlo_dtype(value)); }
uint64_t tsr_hlo_dim(MlirValue value, uint32_t dim) {
    tsr_shape shape = tsr_hlo_type(value).shape;
    return dim < shape.rank ? shape.dims[dim] : 1;
}

/* ---- constants ---- */

MlirValue tsr_hlo_number(tsr_hlo_call *c, tsr_dtype dtype, double value) {
    return tsr_hlo_filled(c, dtype, &(tsr_shape){.rank = 0}, value);
}

MlirValue tsr_hlo_like(tsr_hlo_call *c, MlirValue like, double value) {
    if (tsr_emitter_has_null(&c->emitter, 1, &like)) return null_value;
    return tsr_hlo_number(c, tsr_hlo_dtype(like), value);
}

MlirValue tsr_hlo_bits(tsr_hlo_call *c, tsr_dtype dtype, uint64_t bits) {
    tsr_type type = tsr_type_scalar(dtype);
    return tsr_emitter_constant(&c->emitter, &type, &bits); /* little-endian */
}

bool tsr_hlo_splat(MlirValue value, double *out_value) {
    while (!mlirValueIsNull(value) && mlirValueIsAOpResult(value)) {
        MlirOperation op = mlirOpResultGetOwner(value);
        tsr_op id = tsr_op_of(op);
        if (id == TSR_GRAPH_CONSTANT) return tsr_attr_splat(tsr_op_attr(op, "value"), out_value);
        if (id != TSR_GRAPH_BROADCAST && id != TSR_GRAPH_RESHAPE) return false;
        value = tsr_op_operand(op, 0);
    }
    return false;
}

/* ---- elementwise ---- */

MlirValue tsr_hlo_bitcast(tsr_hlo_call *c, MlirValue x, tsr_dtype dtype) {
    if (tsr_emitter_has_null(&c->emitter, 1, &x)) return null_value;
    tsr_type type = tsr_hlo_type(x);
    if (type.dtype == dtype) return x;
    type.dtype = dtype;
    return tsr_hlo_emit(c, TSR_GRAPH_NAME("bitcast"), &x, 1, NULL, &type);
}

/* The op takes operands of one shape. */
MlirValue tsr_hlo_mul_add(tsr_hlo_call *c, MlirValue x, MlirValue y, MlirValue z) {
    MlirValue operands[] = {x, y, z};
    tsr_shape all = {.rank = 0};
    if (tsr_emitter_has_null(&c->emitter, 3, operands)) return null_value;
    for (size_t i = 0; i < 3; i++) {
        tsr_shape shape = tsr_hlo_type(operands[i]).shape;
        if (shape.rank > all.rank) all = shape;
    }
    for (size_t i = 0; i < 3; i++) {
        tsr_shape shape = tsr_hlo_type(operands[i]).shape;
        for (uint32_t k = 0; k < shape.rank; k++) {
            uint64_t *dim = &all.dims[all.rank - shape.rank + k];
            if (*dim == 1) *dim = shape.dims[k];
        }
    }
    for (size_t i = 0; i < 3; i++) operands[i] = tsr_hlo_broadcast(c, operands[i], &all);
    return tsr_hlo_emit(c, TSR_GRAPH_NAME("mul_add"), operands, 3, NULL, NULL);
}

/* ---- moving elements ---- */

MlirValue tsr_hlo_slice_dim(tsr_hlo_call *c, MlirValue x, uint32_t dim, int64_t start, int64_t size,
                            int64_t stride) {
    if (tsr_emitter_has_null(&c->emitter, 1, &x)) return null_value;
    /* Below 0 they would be read as open dims. */
    if (start < 0 || size < 0)
        return tsr_hlo_fail_value(c, TSR_DIAG_HLO_FORM,
                                  "a slice of %" PRId64 " elements from %" PRId64 " on", size,
                                  start);
    return tsr_emitter_slice(&c->emitter, x, dim, (uint64_t)start, (uint64_t)size, stride);
}

MlirValue tsr_hlo_positions(tsr_hlo_call *c, uint32_t rank, uint32_t axis, uint64_t size,
                            int64_t scale) {
    MlirValue positions = tsr_emitter_iota(&c->emitter, TSR_DTYPE_I64, rank, axis, size);
    if (scale == 1) return positions;
    return EMIT(c, "mul", positions, tsr_hlo_number(c, TSR_DTYPE_I64, (double)scale));
}

MlirValue tsr_hlo_reverse(tsr_hlo_call *c, MlirValue x, uint32_t dim) {
    uint64_t size = tsr_hlo_dim(x, dim);
    if (size < 2) return x;
    MlirValue last = tsr_hlo_number(c, TSR_DTYPE_I64, (double)(size - 1));
    MlirValue back = EMIT(c, "sub", last, tsr_hlo_positions(c, 1, 0, size, 1));
    return tsr_hlo_gather(c, x, back, dim);
}

/* ---- padding ---- */

/* `count` copies of the scalar before or after the elements of one dim. */
static MlirValue fill_beside(tsr_hlo_call *c, MlirValue x, MlirValue value, uint32_t dim,
                             int64_t count, bool before) {
    if (count <= 0 || tsr_emitter_has_null(&c->emitter, 1, &x)) return x;
    tsr_shape shape = tsr_hlo_type(x).shape;
    shape.dims[dim] = (uint64_t)count;
    MlirValue fill = tsr_hlo_broadcast(c, value, &shape);
    MlirValue parts[] = {before ? fill : x, before ? x : fill};
    return tsr_hlo_concat(c, 2, parts, dim);
}

/* Copies of the scalar between neighbours: each element and its copies become a row. */
static MlirValue fill_between(tsr_hlo_call *c, MlirValue x, MlirValue value, uint32_t dim,
                              int64_t count) {
    if (count <= 0 || tsr_emitter_has_null(&c->emitter, 1, &x) || tsr_hlo_dim(x, dim) < 2) return x;
    tsr_shape flat = tsr_hlo_type(x).shape, split = {.rank = 3, .dims = {1, 1, 1}};
    for (uint32_t i = 0; i < flat.rank; i++) split.dims[i > dim ? 2 : 0] *= flat.dims[i];
    split.dims[0] = 1;
    for (uint32_t i = 0; i <= dim; i++) split.dims[0] *= flat.dims[i];
    MlirValue rows = fill_beside(c, tsr_hlo_reshape(c, x, &split), value, 1, count, false);
    flat.dims[dim] *= (uint64_t)count + 1;
    return tsr_hlo_slice_dim(c, tsr_hlo_reshape(c, rows, &flat), dim, 0,
                             (int64_t)flat.dims[dim] - count, 1);
}

/* The op that pads floats with a number that is known. */
static MlirValue pad_known(tsr_hlo_call *c, MlirValue x, double value, const int64_t *low,
                           const int64_t *high, const int64_t *interior) {
    int64_t lists[3][TSR_RANK_MAX];
    uint32_t rank = tsr_hlo_rank(x);
    for (uint32_t i = 0; i < rank; i++) {
        lists[0][i] = low[i] > 0 ? low[i] : 0;
        lists[1][i] = high[i] > 0 ? high[i] : 0;
        lists[2][i] = interior[i];
    }
    return tsr_emitter_pad(&c->emitter, x, lists[0], lists[1], lists[2], value);
}

MlirValue tsr_hlo_pad(tsr_hlo_call *c, MlirValue x, MlirValue value, const int64_t *low,
                      const int64_t *high, const int64_t *interior) {
    double number;
    if (tsr_emitter_has_null(&c->emitter, 1, &x) || tsr_emitter_has_null(&c->emitter, 1, &value))
        return null_value;
    uint32_t rank = tsr_hlo_rank(x);
    bool known = tsr_hlo_is_float(x) && tsr_hlo_splat(value, &number);
    if (known) x = pad_known(c, x, number, low, high, interior);
    for (uint32_t i = 0; i < rank && !known; i++) {
        x = fill_between(c, x, value, i, interior[i]);
        x = fill_beside(c, fill_beside(c, x, value, i, low[i], true), value, i, high[i], false);
    }
    for (uint32_t i = 0; i < rank && !c->failed; i++) {
        int64_t before = low[i] < 0 ? -low[i] : 0, after = high[i] < 0 ? -high[i] : 0;
        int64_t size = (int64_t)tsr_hlo_dim(x, i) - before - after;
        if (size < 0)
            return tsr_hlo_fail_value(c, TSR_DIAG_HLO_FORM,
                                      "dim %u has %" PRIu64 " elements; %" PRId64 " are cut off", i,
                                      tsr_hlo_dim(x, i), before + after);
        x = tsr_hlo_slice_dim(c, x, i, before, size, 1);
    }
    return x;
}
