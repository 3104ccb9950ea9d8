/* SPDX-License-Identifier: Apache-2.0
 *
 * Constants, and ops that move elements.
 */
#include "compiler/frontend/stablehlo/rules.h"
#include "compiler/process/guard.h"
#include "compiler/shim/shim.h"

#include <inttypes.h>
#include <string.h>

bool tsr_hlo_rule_constant(tsr_hlo_call *c) {
    tsr_type type;
    void *data;
    MlirAttribute value = tsr_hlo_attr(c, "value", NULL);
    double number;
    if (!mlirAttributeIsNull(value) && tsr_attr_splat(value, &number) &&
        !mlirAttributeIsNull(tsr_attr_splat_element(value))) {
        tsr_attr attrs[] = {{"value", value}, {0}};
        return tsr_hlo_out(
            c, 0, tsr_hlo_emit(c, TSR_GRAPH_NAME("constant"), NULL, 0, attrs, &c->types[0]));
    }
    if (mlirAttributeIsNull(value) || !tsr_attr_elements(value, c->arena, &type, &data))
        return tsr_hlo_fail(c, TSR_DIAG_HLO_FORM, "its value is not dense elements of %s",
                            tsr_dtype_names());
    tsr_attr attrs[] = {{"value", tsr_attr_make_elements(c->builder->context, &type, data)}, {0}};
    return tsr_hlo_out(c, 0, tsr_hlo_emit(c, TSR_GRAPH_NAME("constant"), NULL, 0, attrs, &type));
}

/* Types that cannot represent each position get it from a cast of i64. */
bool tsr_hlo_rule_iota(tsr_hlo_call *c) {
    int64_t dim;
    tsr_type row = c->types[0], wide;
    if (!tsr_hlo_int(c, "iota_dimension", "dim", -1, &dim) ||
        !tsr_hlo_check_dims(c, "it", row.shape.rank, 1, &dim))
        return false;
    for (uint32_t i = 0; i < row.shape.rank; i++)
        if (i != (uint32_t)dim) row.shape.dims[i] = 1;
    wide = row;
    wide.dtype = TSR_DTYPE_I64;
    tsr_attr attrs[] = {tsr_hlo_i64_attr(c, "axis", dim), {0}};
    MlirValue positions = tsr_hlo_emit(c, TSR_GRAPH_NAME("iota"), NULL, 0, attrs, &wide);
    positions = tsr_hlo_cast(c, positions, row.dtype);
    return tsr_hlo_out(c, 0, tsr_hlo_broadcast(c, positions, &c->types[0].shape));
}

bool tsr_hlo_rule_broadcast_in_dim(tsr_hlo_call *c) {
    int64_t dims[TSR_RANK_MAX], permutation[TSR_RANK_MAX];
    uint32_t rank = tsr_hlo_rank(c->in[0]), at = 0;
    const tsr_shape *to = &c->types[0].shape;
    tsr_shape expanded = {.rank = to->rank};
    if (!tsr_hlo_ints_exact(c, "broadcast_dimensions", "dims", rank, 0, dims) ||
        !tsr_hlo_check_dims(c, "dims", to->rank, rank, dims))
        return false;
    for (uint32_t d = 0; d < to->rank; d++) {
        expanded.dims[d] = 1;
        for (uint32_t i = 0; i < rank; i++)
            if (dims[i] == (int64_t)d) {
                expanded.dims[d] = tsr_hlo_dim(c->in[0], i);
                permutation[at++] = i;
            }
    }
    MlirValue x = tsr_hlo_transpose(c, c->in[0], permutation);
    return tsr_hlo_out(c, 0, tsr_hlo_broadcast(c, tsr_hlo_reshape(c, x, &expanded), to));
}

bool tsr_hlo_rule_reshape(tsr_hlo_call *c) {
    return tsr_hlo_out(c, 0, tsr_hlo_reshape(c, c->in[0], &c->types[0].shape));
}

bool tsr_hlo_rule_transpose(tsr_hlo_call *c) {
    int64_t permutation[TSR_RANK_MAX];
    uint32_t rank = tsr_hlo_rank(c->in[0]);
    return tsr_hlo_ints_exact(c, "permutation", "dims", rank, 0, permutation) &&
           tsr_hlo_check_dims(c, "permutation", rank, rank, permutation) &&
           tsr_hlo_out(c, 0, tsr_hlo_transpose(c, c->in[0], permutation));
}

bool tsr_hlo_rule_reverse(tsr_hlo_call *c) {
    int64_t dims[TSR_RANK_MAX];
    size_t count;
    MlirValue x = c->in[0];
    if (!tsr_hlo_ints(c, "dimensions", "dims", TSR_RANK_MAX, dims, &count) ||
        !tsr_hlo_check_dims(c, "dims", tsr_hlo_rank(x), count, dims))
        return false;
    for (size_t i = 0; i < count; i++) x = tsr_hlo_reverse(c, x, (uint32_t)dims[i]);
    return tsr_hlo_out(c, 0, x);
}

bool tsr_hlo_rule_concatenate(tsr_hlo_call *c) {
    int64_t dim;
    return tsr_hlo_int(c, "dimension", "dim", -1, &dim) &&
           tsr_hlo_check_dims(c, "it", tsr_hlo_rank(c->in[0]), 1, &dim) &&
           tsr_hlo_out(c, 0, tsr_hlo_concat(c, c->in_count, c->in, (uint32_t)dim));
}

bool tsr_hlo_rule_slice(tsr_hlo_call *c) {
    int64_t start[TSR_RANK_MAX], limit[TSR_RANK_MAX], stride[TSR_RANK_MAX];
    uint32_t rank = tsr_hlo_rank(c->in[0]);
    if (!tsr_hlo_ints_exact(c, "start_indices", NULL, rank, 0, start) ||
        !tsr_hlo_ints_exact(c, "limit_indices", NULL, rank, 0, limit) ||
        !tsr_hlo_ints_exact(c, "strides", NULL, rank, 1, stride))
        return false;
    MlirValue x = c->in[0];
    for (uint32_t i = 0; i < rank; i++) {
        if (start[i] < 0 || limit[i] < start[i] || stride[i] < 1 ||
            limit[i] > (int64_t)tsr_hlo_dim(c->in[0], i))
            return tsr_hlo_fail(c, TSR_DIAG_HLO_FORM,
                                "dim %u has the slice %" PRId64 ":%" PRId64 ":%" PRId64
                                " of %" PRIu64 " elements",
                                i, start[i], limit[i], stride[i], tsr_hlo_dim(c->in[0], i));
        int64_t size = (limit[i] - start[i] + stride[i] - 1) / stride[i];
        x = tsr_hlo_slice_dim(c, x, i, size ? start[i] : 0, size, size > 1 ? stride[i] : 1);
    }
    return tsr_hlo_out(c, 0, x);
}

bool tsr_hlo_rule_pad(tsr_hlo_call *c) {
    enum { PADDING_MAX = 1 << 30 };
    int64_t low[TSR_RANK_MAX], high[TSR_RANK_MAX], interior[TSR_RANK_MAX];
    uint32_t rank = tsr_hlo_rank(c->in[0]);
    if (!tsr_hlo_ints_exact(c, "edge_padding_low", "low", rank, 0, low) ||
        !tsr_hlo_ints_exact(c, "edge_padding_high", "high", rank, 0, high) ||
        !tsr_hlo_ints_exact(c, "interior_padding", "interior", rank, 0, interior))
        return false;
    for (uint32_t i = 0; i < rank; i++)
        if (low[i] < -PADDING_MAX || low[i] > PADDING_MAX || high[i] < -PADDING_MAX ||
            high[i] > PADDING_MAX || interior[i] < 0 || interior[i] > PADDING_MAX)
            return tsr_hlo_fail(c, TSR_DIAG_HLO_FORM,
                                "the padding of dim %u is %" PRId64 ", %" PRId64 " and %" PRId64
                                " inside",
                                i, low[i], high[i], interior[i]);
    return tsr_hlo_out(c, 0, tsr_hlo_pad(c, c->in[0], c->in[1], low, high, interior));
}

bool tsr_hlo_rule_dimension_size(tsr_hlo_call *c) {
    int64_t dim;
    return tsr_hlo_int(c, "dimension", "dim", -1, &dim) &&
           tsr_hlo_check_dims(c, "it", tsr_hlo_rank(c->in[0]), 1, &dim) &&
           tsr_hlo_out(
               c, 0,
               tsr_hlo_number(c, c->types[0].dtype, (double)tsr_hlo_dim(c->in[0], (uint32_t)dim)));
}
