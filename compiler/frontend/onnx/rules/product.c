/* SPDX-License-Identifier: Apache-2.0
 *
 * Products. Those of integers go by way of f64, where sums of products of bytes are exact; products
 * of wide integers are sums of an elementwise product, which wrap as they must.
 */
#include "compiler/frontend/onnx/rules/quantized.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

/* ---- matrices -------------------------------------------------------------------------------- */

/* [.., M, K] by [.., K, N], integers: [.., M, K, 1] times [.., 1, K, N], summed over K. */
static MlirValue integer_product(tsr_onnx_call *c, MlirValue a, MlirValue b) {
    tsr_shape left = tsr_onnx_type_of(a).shape, right = tsr_onnx_type_of(b).shape;
    if (left.rank == TSR_RANK_MAX || right.rank == TSR_RANK_MAX)
        return tsr_onnx_fail_value(c, TSR_DIAG_ONNX_SHAPE,
                                   "a product of integers has at most %d "
                                   "dims",
                                   TSR_RANK_MAX - 1);
    left.dims[left.rank++] = 1;
    right.rank++;
    right.dims[right.rank - 1] = right.dims[right.rank - 2];
    right.dims[right.rank - 2] = right.dims[right.rank - 3];
    right.dims[right.rank - 3] = 1;
    MlirValue product =
        EMIT(c, "mul", tsr_onnx_reshape(c, a, &left), tsr_onnx_reshape(c, b, &right));
    int64_t axis = (int64_t)tsr_onnx_rank(product) - 2;
    return tsr_onnx_reduce(c, TSR_GRAPH_NAME("sum"), product, 1, &axis, false);
}

/* Operands of one dim become matrices; their dim vanishes from the result. */
MlirValue tsr_onnx_product(tsr_onnx_call *c, MlirValue a, MlirValue b) {
    tsr_shape left = tsr_onnx_type_of(a).shape, right = tsr_onnx_type_of(b).shape;
    bool row = left.rank == 1, column = right.rank == 1;
    if (c->failed) return (MlirValue){NULL};
    if (left.rank == 0 || right.rank == 0)
        return tsr_onnx_fail_value(c, TSR_DIAG_ONNX_SHAPE, "an operand is a scalar");
    if (row) a = tsr_onnx_reshape(c, a, &(tsr_shape){.rank = 2, .dims = {1, left.dims[0]}});
    if (column) b = tsr_onnx_reshape(c, b, &(tsr_shape){.rank = 2, .dims = {right.dims[0], 1}});
    tsr_shape x = tsr_onnx_type_of(a).shape, y = tsr_onnx_type_of(b).shape;
    char text[TSR_DIM_TEXT_MAX], other[TSR_DIM_TEXT_MAX];
    if (x.dims[x.rank - 1] != y.dims[y.rank - 2])
        return tsr_onnx_fail_value(c, TSR_DIAG_ONNX_SHAPE, "dims of %s and %s must be equal",
                                   tsr_dim_text(x.dims[x.rank - 1], text),
                                   tsr_dim_text(y.dims[y.rank - 2], other));
    MlirValue product =
        tsr_onnx_is_float(a) ? tsr_onnx_matmul(c, a, b, false, false) : integer_product(c, a, b);
    tsr_shape shape = tsr_onnx_type_of(product).shape, squeezed = {0};
    for (uint32_t i = 0; i < shape.rank; i++) {
        bool removed = (row && i + 2 == shape.rank) || (column && i + 1 == shape.rank);
        if (!removed) squeezed.dims[squeezed.rank++] = shape.dims[i];
    }
    return tsr_onnx_reshape(c, product, &squeezed);
}

bool tsr_onnx_rule_matmul(tsr_onnx_call *c) {
    MlirValue a = tsr_onnx_in(c, 0), b = tsr_onnx_in(c, 1);
    MlirValue y = tsr_onnx_quantized_product(c, a, b, false, false);
    return tsr_onnx_out(c, 0, mlirValueIsNull(y) ? tsr_onnx_product(c, a, b) : y);
}

bool tsr_onnx_rule_gemm(tsr_onnx_call *c) {
    MlirValue a = tsr_onnx_in(c, 0), b = tsr_onnx_in(c, 1), bias = tsr_onnx_in_or_null(c, 2);
    double alpha = tsr_onnx_attr_f(c, "alpha", 1), beta = tsr_onnx_attr_f(c, "beta", 1);
    bool transpose_a = tsr_onnx_attr_i(c, "transA", 0),
         transpose_b = tsr_onnx_attr_i(c, "transB", 0);
    if (!tsr_onnx_need_rank(c, "A", a, 2, 2) || !tsr_onnx_need_rank(c, "B", b, 2, 2)) return false;
    MlirValue y;
    if (tsr_onnx_is_float(a)) {
        y = tsr_onnx_quantized_product(c, a, b, transpose_a, transpose_b);
        if (mlirValueIsNull(y)) y = tsr_onnx_matmul(c, a, b, transpose_a, transpose_b);
    } else {
        y = tsr_onnx_product(c, transpose_a ? tsr_onnx_swap(c, a, 0, 1) : a,
                             transpose_b ? tsr_onnx_swap(c, b, 0, 1) : b);
        if (alpha != (double)(int64_t)alpha || beta != (double)(int64_t)beta)
            return tsr_onnx_fail(c, TSR_DIAG_ONNX_ATTRIBUTE,
                                 "attributes 'alpha' and 'beta' of integers must be whole");
    }
    if (alpha != 1) y = EMIT(c, "mul", y, tsr_onnx_number(c, y, alpha));
    if (mlirValueIsNull(bias) || beta == 0) return tsr_onnx_out(c, 0, y);
    if (beta != 1) bias = EMIT(c, "mul", bias, tsr_onnx_number(c, bias, beta));
    return tsr_onnx_out(c, 0, EMIT(c, "add", y, bias));
}

/* com.microsoft.FusedMatMul: alpha, and transposes of the last two dims. */
bool tsr_onnx_rule_fused_matmul(tsr_onnx_call *c) {
    MlirValue a = tsr_onnx_in(c, 0), b = tsr_onnx_in(c, 1);
    double alpha = tsr_onnx_attr_f(c, "alpha", 1);
    if (!tsr_onnx_attr_must_be(c, "transBatchA", 0, 0) ||
        !tsr_onnx_attr_must_be(c, "transBatchB", 0, 0) ||
        !tsr_onnx_need_rank(c, "A", a, 2, TSR_RANK_MAX) ||
        !tsr_onnx_need_rank(c, "B", b, 2, TSR_RANK_MAX))
        return false;
    MlirValue y = tsr_onnx_matmul(c, a, b, tsr_onnx_attr_i(c, "transA", 0) != 0,
                                  tsr_onnx_attr_i(c, "transB", 0) != 0);
    return tsr_onnx_out(c, 0, alpha == 1 ? y : EMIT(c, "mul", y, tsr_onnx_number(c, y, alpha)));
}

/* ---- determinant ----------------------------------------------------------------------------- */

/* One step of elimination of [B, m, m]: exchanges the first row for that of the largest pivot, and
 * leaves [B, m - 1, m - 1]. The factor of the determinant, [B], is the pivot with the sign of the
 * exchange. */
static MlirValue eliminate(tsr_onnx_call *c, MlirValue a, uint64_t batch, uint64_t m,
                           MlirValue *out_rest) {
    const tsr_shape list = {.rank = 1, .dims = {batch}};
    const tsr_shape rows = {.rank = 2, .dims = {tsr_onnx_times(c, batch, m), m}};
    const tsr_shape column = {.rank = 2, .dims = {batch, m}};
    const tsr_shape row_shape = {.rank = 3, .dims = {batch, 1, m}};
    const tsr_shape each = {.rank = 3, .dims = {batch, 1, 1}};
    tsr_attr axis[] = {tsr_onnx_i64_attr(c, "axis", 1), {0}};
    MlirValue first = tsr_onnx_reshape(c, tsr_onnx_slice_dim(c, a, 2, 0, 1, 1), &column);
    MlirValue at = EMIT_WITH(c, "argmax", axis, EMIT(c, "abs", first));
    MlirValue number = tsr_onnx_iota(c, TSR_DTYPE_I64, 1, 0, batch);
    number = EMIT(c, "add", EMIT(c, "mul", number, tsr_onnx_number(c, number, (double)m)), at);
    MlirValue row = tsr_onnx_reshape(
        c, tsr_onnx_gather(c, tsr_onnx_reshape(c, a, &rows), number, 0), &row_shape);
    MlirValue pivot = tsr_onnx_reshape(c, tsr_onnx_slice_dim(c, row, 2, 0, 1, 1), &list);
    MlirValue moved = tsr_onnx_compare(c, TSR_PREDICATE_NE, at, ZERO(c, at));
    MlirValue factor = EMIT(c, "where", moved, EMIT(c, "neg", pivot), pivot);
    if (m == 1) return factor;
    MlirValue here = tsr_onnx_compare(c, TSR_PREDICATE_EQ, tsr_onnx_iota(c, TSR_DTYPE_I64, 3, 1, m),
                                      tsr_onnx_reshape(c, at, &each));
    a = EMIT(c, "where", here, tsr_onnx_slice_dim(c, a, 1, 0, 1, 1), a);
    a = tsr_onnx_slice_dim(c, a, 1, 1, (int64_t)m - 1, 1);
    MlirValue divisor = tsr_onnx_reshape(c, pivot, &each);
    MlirValue is_0 = tsr_onnx_compare(c, TSR_PREDICATE_EQ, divisor, ZERO(c, divisor));
    divisor = EMIT(c, "where", is_0, ONE(c, divisor), divisor);
    MlirValue share = EMIT(c, "div", tsr_onnx_slice_dim(c, a, 2, 0, 1, 1), divisor);
    MlirValue right = tsr_onnx_slice_dim(c, row, 2, 1, (int64_t)m - 1, 1);
    *out_rest = EMIT(c, "sub", tsr_onnx_slice_dim(c, a, 2, 1, (int64_t)m - 1, 1),
                     EMIT(c, "mul", share, right));
    return factor;
}

/* Gaussian elimination with partial pivoting, written out. */
bool tsr_onnx_rule_det(tsr_onnx_call *c) {
    enum { SIZE_MAX_OF_MATRIX = 64 };
    MlirValue x = tsr_onnx_in(c, 0), product = {NULL};
    if (!tsr_onnx_need_rank(c, "the input", x, 2, TSR_RANK_MAX)) return false;
    tsr_shape shape = tsr_onnx_type_of(x).shape;
    uint64_t m = 0;
    if (!tsr_onnx_known_dim(c, "the input", x, shape.rank - 1, &m) ||
        !tsr_onnx_known_dim(c, "the input", x, shape.rank - 2, &shape.dims[shape.rank - 2]))
        return false;
    if (shape.dims[shape.rank - 2] != m || m < 1 || m > SIZE_MAX_OF_MATRIX)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_SHAPE,
                             "a matrix of %" PRIu64 " by %" PRIu64 "; expected a square one of at "
                             "most %d",
                             shape.dims[shape.rank - 2], m, SIZE_MAX_OF_MATRIX);
    shape.rank -= 2;
    uint64_t batch = tsr_onnx_volume(c, &shape, 0, shape.rank);
    MlirValue a =
        tsr_onnx_reshape(c, tsr_onnx_wide(c, x), &(tsr_shape){.rank = 3, .dims = {batch, m, m}});
    for (uint64_t left = m; left > 0 && !c->failed; left--) {
        MlirValue rest = {NULL}, factor = eliminate(c, a, batch, left, &rest);
        product = left == m ? factor : EMIT(c, "mul", product, factor);
        a = rest;
    }
    product = tsr_onnx_reshape(c, product, &shape);
    return tsr_onnx_out(c, 0, tsr_onnx_cast(c, product, tsr_onnx_dtype(x)));
}

/* ---- einsum ---------------------------------------------------------------------------------- */

/* Letters of the equation, in the order of their first use, and the dims that "..." covers. */
enum {
    LETTERS_MAX = 52,
    TERMS_MAX = 16,
    ELLIPSIS = LETTERS_MAX,
    SLOTS = LETTERS_MAX + TSR_RANK_MAX
};

typedef struct term {
    size_t count;
    uint8_t slots[TSR_RANK_MAX * 2]; /* letters, or ELLIPSIS + n */
} term;

typedef struct einsum {
    size_t term_count;
    term terms[TERMS_MAX], result;
    uint64_t sizes[SLOTS]; /* 0: not used */
    uint32_t covered;      /* dims of the ellipsis */
} einsum;

static int letter(char mark) {
    if (mark >= 'a' && mark <= 'z') return mark - 'a';
    return mark >= 'A' && mark <= 'Z' ? mark - 'A' + 26 : -1;
}

/* Reads "bij" or "...ij" up to the end of the term. */
static const char *read_term(const char *at, uint32_t covered, term *out) {
    out->count = 0;
    while (*at && *at != ',' && *at != '-') {
        if (strncmp(at, "...", 3) == 0) {
            for (uint32_t i = 0; i < covered && out->count < TSR_RANK_MAX; i++)
                out->slots[out->count++] = (uint8_t)(ELLIPSIS + i);
            at += 3;
        } else if (*at == ' ') {
            at++;
        } else if (letter(*at) >= 0 && out->count < TSR_RANK_MAX) {
            out->slots[out->count++] = (uint8_t)letter(*at++);
        } else {
            return NULL;
        }
    }
    return at;
}

static uint32_t letters_of(const char *at) {
    uint32_t count = 0;
    for (; *at && *at != ',' && *at != '-'; at++) count += letter(*at) >= 0;
    return count;
}

/* Without "->": the dims of the ellipsis, then letters that occur once, in alphabetic order. */
static void imply_result(einsum *e) {
    static const char order[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    for (uint32_t i = 0; i < e->covered; i++)
        e->result.slots[e->result.count++] = (uint8_t)(ELLIPSIS + i);
    for (const char *at = order; *at; at++) {
        size_t uses = 0;
        for (size_t t = 0; t < e->term_count; t++)
            for (size_t i = 0; i < e->terms[t].count; i++)
                uses += e->terms[t].slots[i] == letter(*at);
        if (uses == 1 && e->result.count < TSR_RANK_MAX)
            e->result.slots[e->result.count++] = (uint8_t)letter(*at);
    }
}

static bool parse(tsr_onnx_call *c, einsum *e) {
    const char *equation = tsr_onnx_attr_s(c, "equation", ""), *at = equation;
    bool arrow = false;
    for (size_t i = 0; i < c->input_count && i < TERMS_MAX; i++) {
        uint32_t rank = tsr_onnx_rank(tsr_onnx_in(c, i));
        const char *dots = strstr(at, "..."), *end = at + strcspn(at, ",-");
        uint32_t letters = letters_of(at);
        uint32_t covers = dots && dots < end && rank > letters ? rank - letters : 0;
        if (covers > e->covered) e->covered = covers;
        at = *end == ',' ? end + 1 : end;
    }
    at = equation;
    do {
        if (e->term_count == TERMS_MAX) return false;
        uint32_t rank =
            e->term_count < c->input_count ? tsr_onnx_rank(tsr_onnx_in(c, e->term_count)) : 0;
        uint32_t letters = letters_of(at);
        uint32_t covers = rank > letters ? rank - letters : 0;
        term *t = &e->terms[e->term_count];
        at = read_term(at, covers, t);
        if (!at) return false;
        /* the ellipsis is aligned at its last dims */
        for (size_t i = 0; i < t->count; i++)
            if (t->slots[i] >= ELLIPSIS) t->slots[i] = (uint8_t)(t->slots[i] + e->covered - covers);
        e->term_count++;
    } while (*at++ == ',');
    arrow = at[-1] == '-' && *at == '>';
    if (arrow && !read_term(at + 1, e->covered, &e->result)) return false;
    if (!arrow) imply_result(e);
    return e->term_count == c->input_count;
}

static bool take_sizes(tsr_onnx_call *c, einsum *e) {
    for (size_t t = 0; t < e->term_count; t++) {
        MlirValue x = c->inputs[t];
        if (tsr_onnx_rank(x) != e->terms[t].count)
            return tsr_onnx_fail(c, TSR_DIAG_ONNX_SHAPE,
                                 "input %zu has %u dims; the equation says "
                                 "%zu",
                                 t, tsr_onnx_rank(x), e->terms[t].count);
        for (uint32_t i = 0; i < e->terms[t].count; i++) {
            uint64_t *size = &e->sizes[e->terms[t].slots[i]], dim = tsr_onnx_dim_of(x, i);
            char text[TSR_DIM_TEXT_MAX], other[TSR_DIM_TEXT_MAX];
            if (*size > 1 && dim != 1 && dim != *size)
                return tsr_onnx_fail(c, TSR_DIAG_ONNX_SHAPE, "one letter has sizes %s and %s",
                                     tsr_dim_text(*size, text), tsr_dim_text(dim, other));
            if (dim > *size) *size = dim;
        }
    }
    return true;
}

/* A letter that occurs twice in a term: only elements where both positions are equal count. */
static MlirValue take_diagonals(tsr_onnx_call *c, MlirValue x, term *t) {
    for (size_t i = 0; i < t->count; i++)
        for (size_t k = i + 1; k < t->count; k++) {
            if (t->slots[i] != t->slots[k]) continue;
            uint32_t rank = tsr_onnx_rank(x);
            int64_t axis = (int64_t)k;
            MlirValue a =
                tsr_onnx_iota(c, TSR_DTYPE_I64, rank, (uint32_t)i, tsr_onnx_dim_of(x, (uint32_t)i));
            MlirValue b =
                tsr_onnx_iota(c, TSR_DTYPE_I64, rank, (uint32_t)k, tsr_onnx_dim_of(x, (uint32_t)k));
            MlirValue same = tsr_onnx_compare(c, TSR_PREDICATE_EQ, a, b);
            x = EMIT(c, "where", same, x, ZERO(c, x));
            x = tsr_onnx_reduce(c, TSR_GRAPH_NAME("sum"), x, 1, &axis, false);
            memmove(t->slots + k, t->slots + k + 1, t->count - k - 1);
            t->count--;
            k--;
        }
    return x;
}

static bool has_slot(const term *t, uint8_t slot) {
    return memchr(t->slots, slot, t->count) != NULL;
}

/* Sums over the letters that neither a later term nor the result has. */
static MlirValue sum_unused(tsr_onnx_call *c, const einsum *e, size_t next, MlirValue x, term *t) {
    int64_t axes[TSR_RANK_MAX];
    size_t count = 0, squeezed = 0;
    for (size_t i = 0; i < t->count; i++) {
        bool needed = has_slot(&e->result, t->slots[i]);
        for (size_t k = next; k < e->term_count; k++)
            needed = needed || has_slot(&e->terms[k], t->slots[i]);
        if (needed)
            t->slots[squeezed++] = t->slots[i];
        else
            axes[count++] = (int64_t)i;
    }
    t->count = squeezed;
    return count ? tsr_onnx_reduce(c, TSR_GRAPH_NAME("sum"), x, count, axes, false) : x;
}

/* Permutes x to the order of `slots`, those it lacks with size 1, and merges runs: the first
 * `counts[0]` slots become one dim, and so on. Without counts each slot is a dim. */
static MlirValue arrange(tsr_onnx_call *c, MlirValue x, const term *t, size_t count,
                         const uint8_t *slots, const size_t counts[3]) {
    int64_t permutation[TSR_RANK_MAX];
    tsr_shape shape = {0}, merged = {.rank = 3, .dims = {1, 1, 1}};
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        const uint8_t *found = memchr(t->slots, slots[i], t->count);
        uint64_t dim = found ? tsr_onnx_dim_of(x, (uint32_t)(found - t->slots)) : 1;
        if (found) permutation[used++] = found - t->slots;
        if (shape.rank < TSR_RANK_MAX) shape.dims[shape.rank++] = dim;
        size_t run = counts && i >= counts[0] ? (i >= counts[0] + counts[1] ? 2 : 1) : 0;
        merged.dims[run] = tsr_onnx_times(c, merged.dims[run], dim);
    }
    if (used != tsr_onnx_rank(x))
        return tsr_onnx_fail_value(c, TSR_DIAG_ONNX_SHAPE, "the equation has too many letters");
    x = tsr_onnx_transpose(c, x, permutation);
    return tsr_onnx_reshape(c, x, counts ? &merged : &shape);
}

static size_t collect(const term *a, const term *b, const einsum *e, size_t next, int kind,
                      uint8_t *out) {
    size_t count = 0;
    const term *from = kind == 3 ? b : a;
    for (size_t i = 0; i < from->count; i++) {
        uint8_t slot = from->slots[i];
        bool other = has_slot(kind == 3 ? a : b, slot), needed = has_slot(&e->result, slot);
        for (size_t k = next; k < e->term_count; k++)
            needed = needed || has_slot(&e->terms[k], slot);
        int is = other ? (needed ? 0 : 1) : kind == 3 ? 3 : 2;
        if (is == kind) out[count++] = slot;
    }
    return count;
}

/* Both operands as [batch, rows, inner]: letters of both that stay, of one, of both that are summed
 * over. A size of 1 is stretched beforehand. */
static MlirValue contract(tsr_onnx_call *c, const einsum *e, size_t next, MlirValue x, term *a,
                          MlirValue y, const term *b) {
    uint8_t left[4 * TSR_RANK_MAX], right[4 * TSR_RANK_MAX];
    term made = {0};
    size_t batch = collect(a, b, e, next, 0, left);
    memcpy(right, left, batch);
    size_t rows = collect(a, b, e, next, 2, left + batch);
    size_t inner = collect(a, b, e, next, 1, left + batch + rows);
    size_t columns = collect(a, b, e, next, 3, right + batch);
    memcpy(right + batch + columns, left + batch + rows, inner);
    tsr_shape shape = {0};
    for (size_t i = 0; i < batch + rows + columns; i++) {
        uint8_t slot = i < batch + rows ? left[i] : right[i - rows];
        if (made.count == TSR_RANK_MAX)
            return tsr_onnx_fail_value(c, TSR_DIAG_ONNX_SHAPE, "a product has more than %d dims",
                                       TSR_RANK_MAX);
        made.slots[made.count++] = slot;
        shape.dims[shape.rank++] = e->sizes[slot];
    }
    MlirValue l = arrange(c, x, a, batch + rows + inner, left, (size_t[]){batch, rows, inner});
    MlirValue r =
        arrange(c, y, b, batch + columns + inner, right, (size_t[]){batch, columns, inner});
    MlirValue product;
    if (tsr_onnx_is_float(x))
        product = tsr_onnx_matmul(c, l, r, false, true);
    else
        product = integer_product(c, l, tsr_onnx_swap(c, r, 1, 2));
    *a = made;
    return tsr_onnx_reshape(c, product, &shape);
}

/* Dims of size 1 take the size of their letter. */
static MlirValue stretch(tsr_onnx_call *c, const einsum *e, MlirValue x, const term *t) {
    tsr_shape shape = tsr_onnx_type_of(x).shape;
    for (uint32_t i = 0; i < t->count; i++) shape.dims[i] = e->sizes[t->slots[i]];
    return tsr_onnx_broadcast(c, x, &shape);
}

bool tsr_onnx_rule_einsum(tsr_onnx_call *c) {
    einsum e = {0};
    for (size_t i = 0; i < c->input_count; i++) tsr_onnx_in(c, i);
    if (c->failed) return false;
    if (!parse(c, &e))
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_ATTRIBUTE, "attribute 'equation' is '%s'",
                             tsr_onnx_attr_s(c, "equation", ""));
    if (!take_sizes(c, &e)) return false;
    MlirValue x = {NULL};
    for (size_t i = 0; i < e.term_count; i++) {
        MlirValue next = take_diagonals(c, stretch(c, &e, c->inputs[i], &e.terms[i]), &e.terms[i]);
        x = i ? contract(c, &e, i + 1, x, &e.terms[0], next, &e.terms[i])
              : sum_unused(c, &e, 1, next, &e.terms[0]);
    }
    for (size_t i = 0; i < e.result.count; i++)
        if (!has_slot(&e.terms[0], e.result.slots[i]))
            return tsr_onnx_fail(c, TSR_DIAG_ONNX_ATTRIBUTE,
                                 "a letter of the result is in no term");
    x = sum_unused(c, &e, e.term_count, x, &e.terms[0]);
    return tsr_onnx_out(c, 0, arrange(c, x, &e.terms[0], e.result.count, e.result.slots, NULL));
}
