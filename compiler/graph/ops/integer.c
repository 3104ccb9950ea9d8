/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of integers of 8 bits: matmul and conv2d of i8 and ui8, with i32 results. They are
 * lowered to products of words; a word holds four elements along the contracted dim:
 *
 *     %y = matmul %a, %b : ui8 [M, K], i8 [K, N] -> i32 [M, N]
 *
 *     %v = words %a {axis = 1} : ui32 [M, K / 4]
 *     %w = words %b {axis = 0} : i32 [K / 4, N]
 *     %y = matmul %v, %w {tessera.words} : i32 [M, N]
 *
 * Zeros fill the last word. A convolution with groups becomes one of floats that hold every sum.
 */
#include "compiler/graph/rules.h"
#include "compiler/ir/attributes.h"

#include <inttypes.h>

enum {
    WORD_BYTES = 4,
    PRODUCT_BITS = 15, /* a product of two bytes is below 2^15 */
    F32_DIGITS = 24,
};

static bool is_among(tsr_dtype dtype, unsigned dtypes) { return dtypes >> dtype & 1; }

bool tsr_rule_factors(const tsr_rule *rule, const char *a, const char *b, tsr_dtype *out_result) {
    bool words = tsr_op_has(rule->op, TSR_WORDS_NAME);
    tsr_dtype first = rule->operands[0].dtype, second = rule->operands[1].dtype;
    unsigned integers = words ? TSR_DTYPES_WORD : TSR_DTYPES_BYTE;
    *out_result = is_among(first, integers) ? TSR_DTYPE_I32 : first;
    if (is_among(first, integers) && is_among(second, integers)) return true;
    return tsr_rule_dtype(rule, 0, a, TSR_DTYPES_FLOAT | TSR_DTYPES_BYTE) &&
           tsr_rule_same_dtype(rule, 0, a, 1, b);
}

bool tsr_is_product_of_bytes(MlirOperation op) {
    return is_among(tsr_type_of(tsr_op_operand(op, 0)).dtype, TSR_DTYPES_BYTE);
}

bool tsr_check_words(tsr_rule *rule) {
    int64_t axis = 0;
    tsr_type type = rule->operands[0];
    if (!tsr_rule_dtype(rule, 0, "the operand", TSR_DTYPES_BYTE) ||
        !tsr_rule_axis(rule, type.shape.rank, &axis))
        return false;
    uint64_t *dim = &type.shape.dims[axis];
    const tsr_dim_affine words = {.factor = 1, .offset = WORD_BYTES - 1, .divisor = WORD_BYTES};
    if (tsr_dim_is_open(*dim) && !tsr_dim_map(*dim, &words, dim))
        return tsr_rule_fail_open(rule, "operand", (uint32_t)axis, *dim, "it must be known");
    if (tsr_dim_is_known(*dim)) *dim = *dim / WORD_BYTES + (*dim % WORD_BYTES != 0);
    type.dtype = type.dtype == TSR_DTYPE_I8 ? TSR_DTYPE_I32 : TSR_DTYPE_UI32;
    rule->results[0] = type;
    return true;
}

/* ---- lowering -------------------------------------------------------------------------------- */

static MlirValue swap_last_two(tsr_builder *b, MlirValue x) {
    int64_t permutation[TSR_RANK_MAX];
    uint32_t rank = tsr_type_of(x).shape.rank;
    for (uint32_t i = 0; i < rank; i++) permutation[i] = i;
    permutation[rank - 1] = rank - 2;
    permutation[rank - 2] = rank - 1;
    return tsr_emit_transpose(b, x, permutation);
}

/* Appends zeros along the axis, up to whole words. */
static MlirValue fill(tsr_builder *b, MlirValue x, uint32_t axis) {
    int64_t low[TSR_RANK_MAX] = {0}, high[TSR_RANK_MAX] = {0};
    uint64_t dim = tsr_type_of(x).shape.dims[axis];
    if (dim % WORD_BYTES == 0) return x;
    high[axis] = (int64_t)(WORD_BYTES - dim % WORD_BYTES);
    return tsr_emit_pad(b, x, low, high, NULL, 0);
}

static MlirValue words(tsr_builder *b, MlirValue x, uint32_t axis) {
    tsr_type type = tsr_type_of(x);
    uint64_t *dim = &type.shape.dims[axis];
    const tsr_attr attrs[] = {{"axis", tsr_attr_make_i64(b->context, axis)}, {0}};
    *dim = *dim / WORD_BYTES + (*dim % WORD_BYTES != 0);
    type.dtype = type.dtype == TSR_DTYPE_I8 ? TSR_DTYPE_I32 : TSR_DTYPE_UI32;
    return tsr_build_value(b, TSR_GRAPH_NAME("words"), &x, 1, tsr_type_make(b->context, &type),
                           attrs);
}

bool tsr_lower_matmul(MlirOperation op) {
    tsr_builder b = tsr_builder_before(op);
    MlirValue x = tsr_op_operand(op, 0), y = tsr_op_operand(op, 1);
    if (tsr_op_flag(op, "transpose_a")) x = swap_last_two(&b, x);
    if (tsr_op_flag(op, "transpose_b")) y = swap_last_two(&b, y);
    uint32_t rank = tsr_type_of(x).shape.rank;
    x = words(&b, fill(&b, x, rank - 1), rank - 1);
    y = words(&b, y, tsr_type_of(y).shape.rank - 2);
    MlirValue product = tsr_emit_matmul(&b, x, y, false, false);
    tsr_op_set(tsr_value_owner(product), TSR_WORDS_NAME, tsr_attr_make_unit(b.context));
    tsr_emit_replace(op, 1, &product);
    return true;
}

static MlirValue convolve(tsr_builder *b, MlirOperation op, MlirValue image, MlirValue filter,
                          tsr_dtype dtype, bool of_words) {
    static const char *const names[] = {"strides", "padding", "dilation", "groups"};
    tsr_attr attrs[6] = {{0}};
    tsr_type type = tsr_type_of(tsr_op_result(op, 0));
    size_t count = 0;
    for (size_t i = 0; i < 4; i++)
        if (tsr_op_has(op, names[i]))
            attrs[count++] = (tsr_attr){names[i], tsr_op_attr(op, names[i])};
    if (of_words) attrs[count++] = (tsr_attr){TSR_WORDS_NAME, tsr_attr_make_unit(b->context)};
    type.dtype = dtype;
    return tsr_build_value(b, TSR_GRAPH_NAME("conv2d"), (MlirValue[]){image, filter}, 2,
                           tsr_type_make(b->context, &type), attrs);
}

/* The smallest float type that holds each sum of a window. */
static tsr_dtype exact_type(MlirValue filter) {
    const tsr_shape shape = tsr_type_of(filter).shape;
    uint64_t products = 0;
    tsr_shape window = {.rank = 3, .dims = {shape.dims[0], shape.dims[1], shape.dims[2]}};
    bool fits = tsr_shape_count(&window, &products) &&
                products <= UINT64_C(1) << (F32_DIGITS - PRODUCT_BITS);
    return fits ? TSR_DTYPE_F32 : TSR_DTYPE_F64;
}

void tsr_lower_conv2d_of_bytes(MlirOperation op) {
    tsr_builder b = tsr_builder_before(op);
    MlirValue image = tsr_op_operand(op, 0), filter = tsr_op_operand(op, 1), y;
    int64_t groups = 1;
    tsr_op_i64(op, "groups", &groups);
    if (groups == 1) {
        image = words(&b, fill(&b, image, 3), 3);
        filter = words(&b, fill(&b, filter, 2), 2);
        y = convolve(&b, op, image, filter, TSR_DTYPE_I32, true);
    } else {
        tsr_dtype by = exact_type(filter);
        y = convolve(&b, op, tsr_emit_cast(&b, image, by), tsr_emit_cast(&b, filter, by), by,
                     false);
        if (by == TSR_DTYPE_F64) y = tsr_emit_cast(&b, y, TSR_DTYPE_I64); /* the cast wraps */
        y = tsr_emit_cast(&b, y, TSR_DTYPE_I32);
    }
    tsr_emit_replace(op, 1, &y);
}
