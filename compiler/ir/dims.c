/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/ir/dims.h"

#include "compiler/ir/mlir.h"
#include "compiler/process/guard.h"
#include "compiler/shim/shim.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static MlirAttribute text_of(uint64_t dim) {
    TSR_ASSERT(tsr_dim_is_open(dim));
    return (MlirAttribute){(const void *)(uintptr_t)(dim - TSR_DIM_OPEN)};
}

static MlirStringRef expression_of(uint64_t dim) { return mlirStringAttrGetValue(text_of(dim)); }

bool tsr_dim_fits(uint64_t a, uint64_t b) {
    return a == b || a == TSR_DIM_DYNAMIC || b == TSR_DIM_DYNAMIC;
}

const char *tsr_dim_text(uint64_t dim, char out_text[TSR_DIM_TEXT_MAX]) {
    if (tsr_dim_is_open(dim)) {
        MlirStringRef text = expression_of(dim);
        snprintf(out_text, TSR_DIM_TEXT_MAX, "%.*s", (int)text.length, text.data);
    } else if (dim == TSR_DIM_DYNAMIC) {
        snprintf(out_text, TSR_DIM_TEXT_MAX, "?");
    } else {
        snprintf(out_text, TSR_DIM_TEXT_MAX, "%" PRIu64, dim);
    }
    return out_text;
}

const char *tsr_dim_symbol(uint64_t dim) {
    if (!tsr_dim_is_open(dim)) return NULL;
    MlirStringRef text = expression_of(dim);
    return tsr_dim_is_symbol(text.data, text.length) ? text.data : NULL;
}

/* ---- expressions ----------------------------------------------------------------------------- */

tsr_dim_expression tsr_dim_to_expression(tsr_arena *arena, uint64_t dim) {
    tsr_dim_expression expression;
    tsr_dim_error error;
    if (tsr_dim_is_known(dim)) return tsr_dim_expression_number((int64_t)dim);
    MlirStringRef text = expression_of(dim);
    bool read = tsr_dim_expression_parse(arena, text.data, text.length, &expression, &error);
    TSR_ASSERT(read);
    return expression;
}

static tsr_dim_range any_size(void *user, const char *symbol) {
    (void)user, (void)symbol;
    return (tsr_dim_range){1, INT64_MAX};
}

/* True if the value is negative for all sizes of the symbols. */
static bool is_negative(const tsr_dim_expression *expression) {
    return tsr_dim_expression_range(expression, any_size, NULL).high < 0;
}

bool tsr_dim_from_expression(MlirContext context, const tsr_dim_expression *expression,
                             uint64_t *out_dim) {
    char text[TSR_DIM_TEXT_MAX];
    int64_t number;
    if (tsr_dim_expression_is_number(expression, &number)) {
        *out_dim = (uint64_t)number;
        return number >= 0;
    }
    if (is_negative(expression) || !tsr_dim_expression_print(expression, text)) return false;
    *out_dim = TSR_DIM_OPEN + (uintptr_t)tsr_attr_make_string(context, text).ptr;
    return true;
}

static_assert((int)TSR_DIM_TEXT_MAX == TSR_SHIM_DIM_TEXT_MAX, "the text of one expression");

bool tsr_dim_canonicalize(const char *text, size_t size_bytes, char out_text[TSR_SHIM_DIM_TEXT_MAX],
                          const char **out_error) {
    tsr_arena arena = {0};
    tsr_dim_expression expression;
    tsr_dim_error error = {.text = "the expression is too long"};
    int64_t number;
    bool done = tsr_dim_expression_parse(&arena, text, size_bytes, &expression, &error);
    if (done && tsr_dim_expression_is_number(&expression, &number)) {
        error.text = "the expression is a number; a dim of known size is part of the shape";
        done = false;
    }
    if (done && is_negative(&expression)) {
        error.text = "the expression is negative for all sizes of its symbols";
        done = false;
    }
    done = done && tsr_dim_expression_print(&expression, out_text);
    if (!done) *out_error = error.text;
    tsr_arena_finish(&arena);
    return done;
}

bool tsr_dim_read(MlirAttribute attr, uint64_t *out_dim) {
    int64_t number;
    tsr_arena arena = {0};
    tsr_dim_expression expression;
    tsr_dim_error error;
    if (mlirAttributeIsNull(attr)) return false;
    if (tsr_attr_i64(attr, &number)) {
        *out_dim = (uint64_t)number;
        return number >= 0;
    }
    if (!mlirAttributeIsAString(attr)) return false;
    MlirStringRef text = mlirStringAttrGetValue(attr);
    bool done = tsr_dim_expression_parse(&arena, text.data, text.length, &expression, &error) &&
                tsr_dim_from_expression(mlirAttributeGetContext(attr), &expression, out_dim);
    tsr_arena_finish(&arena);
    return done;
}

MlirAttribute tsr_dim_attr(MlirContext context, uint64_t dim) {
    TSR_ASSERT(dim != TSR_DIM_DYNAMIC);
    return tsr_dim_is_open(dim) ? text_of(dim) : tsr_attr_make_i64(context, (int64_t)dim);
}

/* ---- arithmetic ------------------------------------------------------------------------------ */

typedef bool (*operation)(const tsr_dim_expression *a, const tsr_dim_expression *b,
                          tsr_dim_expression *out);

/* One of the dims is open. */
static bool compute_open(operation apply, uint64_t a, uint64_t b, uint64_t *out_dim) {
    tsr_arena arena = {0};
    MlirContext context = mlirAttributeGetContext(text_of(tsr_dim_is_open(a) ? a : b));
    tsr_dim_expression x = tsr_dim_to_expression(&arena, a), y = tsr_dim_to_expression(&arena, b),
                       result;
    bool done = apply(&x, &y, &result) && tsr_dim_from_expression(context, &result, out_dim);
    tsr_arena_finish(&arena);
    return done;
}

/* True if that is the result. */
static bool is_dynamic(uint64_t a, uint64_t b, uint64_t *out_dim) {
    if (a != TSR_DIM_DYNAMIC && b != TSR_DIM_DYNAMIC) return false;
    *out_dim = TSR_DIM_DYNAMIC;
    return true;
}

static bool both_known(uint64_t a, uint64_t b) {
    return tsr_dim_is_known(a) && tsr_dim_is_known(b);
}

bool tsr_dim_add(uint64_t a, uint64_t b, uint64_t *out_dim) {
    if (is_dynamic(a, b, out_dim)) return true;
    if (!both_known(a, b)) return compute_open(tsr_dim_expression_add, a, b, out_dim);
    *out_dim = a + b;
    return tsr_dim_is_known(a + b);
}

bool tsr_dim_subtract(uint64_t a, uint64_t b, uint64_t *out_dim) {
    if (is_dynamic(a, b, out_dim)) return true;
    if (!both_known(a, b)) return compute_open(tsr_dim_expression_subtract, a, b, out_dim);
    *out_dim = a - b;
    return a >= b;
}

bool tsr_dim_multiply(uint64_t a, uint64_t b, uint64_t *out_dim) {
    if (is_dynamic(a, b, out_dim)) return true;
    if (!both_known(a, b)) return compute_open(tsr_dim_expression_multiply, a, b, out_dim);
    return !__builtin_mul_overflow(a, b, out_dim) && tsr_dim_is_known(*out_dim);
}

bool tsr_dim_divide(uint64_t a, uint64_t b, uint64_t *out_dim) {
    if (is_dynamic(a, b, out_dim)) return true;
    if (!both_known(a, b)) return compute_open(tsr_dim_expression_divide, a, b, out_dim);
    if (b == 0 || a % b) return false;
    *out_dim = a / b;
    return true;
}

/* floor((factor * dim + offset) / divisor) as an expression. */
static bool map_expression(tsr_arena *arena, uint64_t dim, const tsr_dim_affine *map,
                           tsr_dim_expression *out) {
    tsr_dim_expression x = tsr_dim_to_expression(arena, dim);
    tsr_dim_expression factor = tsr_dim_expression_number(map->factor);
    tsr_dim_expression offset = tsr_dim_expression_number(map->offset);
    tsr_dim_expression divisor = tsr_dim_expression_number(map->divisor);
    return tsr_dim_expression_multiply(&x, &factor, &x) &&
           tsr_dim_expression_add(&x, &offset, &x) &&
           tsr_dim_expression_floor(arena, &x, &divisor, out);
}

bool tsr_dim_map(uint64_t dim, const tsr_dim_affine *map, uint64_t *out_dim) {
    tsr_arena arena = {0};
    tsr_dim_expression result;
    MlirContext context = {NULL};
    if (is_dynamic(dim, dim, out_dim)) return true;
    if (tsr_dim_is_open(dim)) context = mlirAttributeGetContext(text_of(dim));
    bool done = map_expression(&arena, dim, map, &result) &&
                tsr_dim_from_expression(context, &result, out_dim);
    tsr_arena_finish(&arena);
    return done;
}

/* ---- values ---------------------------------------------------------------------------------- */

tsr_dim_range tsr_dim_sizes(uint64_t dim) {
    tsr_arena arena = {0};
    if (dim == TSR_DIM_DYNAMIC) return (tsr_dim_range){0, INT64_MAX};
    tsr_dim_expression expression = tsr_dim_to_expression(&arena, dim);
    tsr_dim_range range = tsr_dim_expression_range(&expression, any_size, NULL);
    tsr_arena_finish(&arena);
    return range;
}

bool tsr_dim_exceeds(uint64_t a, uint64_t b) {
    tsr_arena arena = {0};
    if (a == TSR_DIM_DYNAMIC || b == TSR_DIM_DYNAMIC) return false;
    if (both_known(a, b)) return a > b;
    tsr_dim_expression x = tsr_dim_to_expression(&arena, a), y = tsr_dim_to_expression(&arena, b);
    bool exceeds = tsr_dim_expression_subtract(&x, &y, &x) &&
                   tsr_dim_expression_range(&x, any_size, NULL).low > 0;
    tsr_arena_finish(&arena);
    return exceeds;
}

bool tsr_dim_value(uint64_t dim, tsr_dim_range_of value_of, void *user, uint64_t *out_value) {
    tsr_arena arena = {0};
    TSR_ASSERT(dim != TSR_DIM_DYNAMIC);
    tsr_dim_expression expression = tsr_dim_to_expression(&arena, dim);
    tsr_dim_range range = tsr_dim_expression_range(&expression, value_of, user);
    tsr_arena_finish(&arena);
    if (range.low != range.high || range.low < 0 || range.low == INT64_MAX) return false;
    *out_value = (uint64_t)range.low;
    return true;
}

void tsr_dim_symbols(uint64_t dim, void (*each)(void *user, const char *symbol), void *user) {
    tsr_arena arena = {0};
    if (!tsr_dim_is_open(dim)) return;
    tsr_dim_expression expression = tsr_dim_to_expression(&arena, dim);
    bool listed = tsr_dim_expression_symbols(&expression, each, user);
    tsr_arena_finish(&arena);
    if (!listed) tsr_guard_end_memory();
}
