/* SPDX-License-Identifier: Apache-2.0
 *
 * Products over any dims: both operands become matrices with a batch, in the order of dims that
 * needs no transpose, where there is one.
 */
#include "compiler/frontend/stablehlo/rules.h"
#include "compiler/shim/shim.h"

#include <inttypes.h>
#include <string.h>

/* The dims of one operand. */
typedef struct side {
    size_t batch_count, sum_count, free_count;
    int64_t batch[TSR_RANK_MAX], sum[TSR_RANK_MAX], free[TSR_RANK_MAX];
} side;

static bool is_among(int64_t dim, size_t count, const int64_t *dims) {
    for (size_t i = 0; i < count; i++)
        if (dims[i] == dim) return true;
    return false;
}

static bool fill_side(tsr_hlo_call *c, size_t operand, side *s) {
    uint32_t rank = tsr_hlo_rank(c->in[operand]);
    int64_t both[2 * TSR_RANK_MAX];
    memcpy(both, s->batch, s->batch_count * sizeof *both);
    memcpy(both + s->batch_count, s->sum, s->sum_count * sizeof *both);
    if (!tsr_hlo_check_dims(c, operand ? "the right operand" : "the left operand", rank,
                            s->batch_count + s->sum_count, both))
        return false;
    for (int64_t i = 0; i < (int64_t)rank; i++)
        if (!is_among(i, s->batch_count, s->batch) && !is_among(i, s->sum_count, s->sum))
            s->free[s->free_count++] = i;
    return true;
}

static bool read_side(tsr_hlo_call *c, size_t operand, side *s) {
    static const char *const names[2][2] = {{"dot_dimension_numbers.lhs_batching_dimensions",
                                             "dot_dimension_numbers.lhs_contracting_dimensions"},
                                            {"dot_dimension_numbers.rhs_batching_dimensions",
                                             "dot_dimension_numbers.rhs_contracting_dimensions"}};
    memset(s, 0, sizeof *s);
    if (mlirAttributeIsNull(tsr_hlo_attr(c, "dot_dimension_numbers", NULL)))
        return tsr_hlo_pair(c, "batching_dims", operand, TSR_RANK_MAX, s->batch, &s->batch_count) &&
               tsr_hlo_pair(c, "contracting_dims", operand, TSR_RANK_MAX, s->sum, &s->sum_count) &&
               fill_side(c, operand, s);
    return tsr_hlo_ints(c, names[operand][0], NULL, TSR_RANK_MAX, s->batch, &s->batch_count) &&
           tsr_hlo_ints(c, names[operand][1], NULL, TSR_RANK_MAX, s->sum, &s->sum_count) &&
           fill_side(c, operand, s);
}

static uint64_t volume(MlirValue x, size_t count, const int64_t *dims) {
    uint64_t product = 1;
    for (size_t i = 0; i < count; i++) product *= tsr_hlo_dim(x, (uint32_t)dims[i]);
    return product;
}

/* [batch, free, sum] or [batch, sum, free]: the one in which the dims are already, else with `sum`
 * first if `sum_first`. */
static MlirValue as_matrices(tsr_hlo_call *c, MlirValue x, const side *s, bool sum_first,
                             bool *out_sum_first) {
    int64_t order[2][TSR_RANK_MAX];
    uint32_t rank = tsr_hlo_rank(x);
    bool in_order[2] = {true, true};
    for (size_t k = 0; k < 2; k++) {
        size_t at = s->batch_count;
        memcpy(order[k], s->batch, at * sizeof(int64_t));
        memcpy(order[k] + at, k ? s->sum : s->free,
               (k ? s->sum_count : s->free_count) * sizeof(int64_t));
        at += k ? s->sum_count : s->free_count;
        memcpy(order[k] + at, k ? s->free : s->sum,
               (k ? s->free_count : s->sum_count) * sizeof(int64_t));
        for (uint32_t i = 0; i < rank; i++) in_order[k] = in_order[k] && order[k][i] == (int64_t)i;
    }
    bool first = in_order[sum_first] ? sum_first : in_order[!sum_first] ? !sum_first : sum_first;
    uint64_t rows = volume(x, s->free_count, s->free), sums = volume(x, s->sum_count, s->sum);
    tsr_shape shape = {
        .rank = 3,
        .dims = {volume(x, s->batch_count, s->batch), first ? sums : rows, first ? rows : sums}};
    *out_sum_first = first;
    return tsr_hlo_reshape(c, tsr_hlo_transpose(c, x, order[first]), &shape);
}

/* Integers: products of all pairs, summed. */
static MlirValue integer_product(tsr_hlo_call *c, MlirValue a, bool a_sum_first, MlirValue b,
                                 bool b_sum_first) {
    static const int64_t swap[] = {0, 2, 1}, last[] = {3};
    tsr_dtype dtype = tsr_hlo_dtype(a);
    bool truth = dtype == TSR_DTYPE_I1;
    tsr_dtype by = truth || tsr_dtype_bits(dtype) < 32 ? TSR_DTYPE_I32 : dtype;
    if (a_sum_first) a = tsr_hlo_transpose(c, a, swap);
    if (b_sum_first) b = tsr_hlo_transpose(c, b, swap);
    uint64_t batch = tsr_hlo_dim(a, 0), sums = tsr_hlo_dim(a, 2);
    tsr_shape rows = {.rank = 4, .dims = {batch, tsr_hlo_dim(a, 1), 1, sums}};
    tsr_shape columns = {.rank = 4, .dims = {batch, 1, tsr_hlo_dim(b, 1), sums}};
    MlirValue pairs = EMIT(c, "mul", tsr_hlo_reshape(c, tsr_hlo_cast(c, a, by), &rows),
                           tsr_hlo_reshape(c, tsr_hlo_cast(c, b, by), &columns));
    return tsr_hlo_cast(c, tsr_hlo_reduce(c, TSR_GRAPH_NAME("sum"), pairs, 1, last), dtype);
}

static MlirValue float_product(tsr_hlo_call *c, MlirValue a, bool a_sum_first, MlirValue b,
                               bool b_sum_first) {
    MlirAttribute yes = tsr_attr_make_bool(c->builder->context, true);
    tsr_attr attrs[3] = {0};
    size_t count = 0;
    if (a_sum_first) attrs[count++] = (tsr_attr){"transpose_a", yes};
    if (!b_sum_first) attrs[count++] = (tsr_attr){"transpose_b", yes};
    return EMIT_WITH(c, "matmul", attrs, a, b);
}

static bool check_sides(tsr_hlo_call *c, const side *a, const side *b) {
    if (a->batch_count != b->batch_count || a->sum_count != b->sum_count)
        return tsr_hlo_fail(c, TSR_DIAG_HLO_FORM,
                            "its operands have %zu and %zu batching dims, %zu and %zu contracting "
                            "dims",
                            a->batch_count, b->batch_count, a->sum_count, b->sum_count);
    for (size_t i = 0; i < a->batch_count + a->sum_count; i++) {
        size_t k = i - a->batch_count;
        bool batch = i < a->batch_count;
        uint64_t one = tsr_hlo_dim(c->in[0], (uint32_t)(batch ? a->batch[i] : a->sum[k]));
        uint64_t other = tsr_hlo_dim(c->in[1], (uint32_t)(batch ? b->batch[i] : b->sum[k]));
        if (one != other)
            return tsr_hlo_fail(c, TSR_DIAG_HLO_FORM,
                                "dims of %" PRIu64 " and %" PRIu64 " elements are multiplied", one,
                                other);
    }
    return true;
}

static bool multiply(tsr_hlo_call *c, const side *a, const side *b) {
    tsr_dtype dtype = c->types[0].dtype;
    bool a_first, b_first;
    if (!check_sides(c, a, b)) return false;
    MlirValue x = as_matrices(c, tsr_hlo_cast(c, c->in[0], dtype), a, false, &a_first);
    MlirValue y = as_matrices(c, tsr_hlo_cast(c, c->in[1], dtype), b, true, &b_first);
    MlirValue product = tsr_dtype_is_float(dtype) ? float_product(c, x, a_first, y, b_first)
                                                  : integer_product(c, x, a_first, y, b_first);
    return tsr_hlo_out(c, 0, tsr_hlo_reshape(c, product, &c->types[0].shape));
}

bool tsr_hlo_rule_dot_general(tsr_hlo_call *c) {
    side a, b;
    return read_side(c, 0, &a) && read_side(c, 1, &b) && multiply(c, &a, &b);
}

/* The last dim of the left operand with the first one of the right operand. */
bool tsr_hlo_rule_dot(tsr_hlo_call *c) {
    side a = {.sum_count = 1, .sum = {(int64_t)tsr_hlo_rank(c->in[0]) - 1}}, b = {.sum_count = 1};
    return fill_side(c, 0, &a) && fill_side(c, 1, &b) && multiply(c, &a, &b);
}
