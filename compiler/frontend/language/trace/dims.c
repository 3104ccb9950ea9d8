/* SPDX-License-Identifier: Apache-2.0
 *
 * Dims without a size, as values: x.shape of a tensor whose dims are open. Arithmetic gives
 * expressions over their names, which shapes take as they take integers.
 */
#include "compiler/frontend/language/trace/tracer.h"

#include <string.h>

static bool read_dim(tsr_value v, uint64_t *out) {
    int64_t size;
    if (tsr_value_is(v, &tsr_dim_class)) return *out = *(const uint64_t *)v.object->data, true;
    if (!tsr_value_as_integer(v, &size) || size < 0) return false;
    *out = (uint64_t)size;
    return true;
}

tsr_value tsr_dim_object(tsr_evaluator *e, uint64_t dim) {
    if (tsr_dim_is_known(dim)) return tsr_value_integer((int64_t)dim);
    uint64_t *own = tsr_arena_memdup(e->arena, &dim, sizeof dim);
    return own ? tsr_evaluate_object(e, &tsr_dim_class, own) : tsr_evaluate_no_memory(e);
}

/* ---- arithmetic ---- */

static bool read_expression(tsr_evaluator *e, tsr_value v, tsr_dim_expression *out) {
    int64_t size;
    bool number = tsr_value_as_integer(v, &size);
    if (number) *out = tsr_dim_expression_number(size);
    if (tsr_value_is(v, &tsr_dim_class))
        *out = tsr_dim_to_expression(e->arena, *(const uint64_t *)v.object->data);
    return number || tsr_value_is(v, &tsr_dim_class);
}

/* a - b * floor(a / b) */
static bool remainder_of(tsr_arena *arena, const tsr_dim_expression *a, const tsr_dim_expression *b,
                         tsr_dim_expression *out) {
    tsr_dim_expression part;
    return tsr_dim_expression_floor(arena, a, b, &part) &&
           tsr_dim_expression_multiply(&part, b, &part) &&
           tsr_dim_expression_subtract(a, &part, out);
}

static bool compute(tsr_evaluator *e, tsr_operator op, const tsr_dim_expression *a,
                    const tsr_dim_expression *b, tsr_dim_expression *out) {
    switch (op) {
    case TSR_OPERATOR_ADD:
        return tsr_dim_expression_add(a, b, out);
    case TSR_OPERATOR_SUBTRACT:
        return tsr_dim_expression_subtract(a, b, out);
    case TSR_OPERATOR_MULTIPLY:
        return tsr_dim_expression_multiply(a, b, out);
    case TSR_OPERATOR_FLOOR:
        return tsr_dim_expression_divide(a, b, out) ||
               tsr_dim_expression_floor(e->arena, a, b, out);
    case TSR_OPERATOR_REMAINDER:
        return remainder_of(e->arena, a, b, out);
    default:
        return false;
    }
}

static tsr_dim_range any_size(void *user, const char *symbol) {
    (void)user;
    (void)symbol;
    return (tsr_dim_range){1, INT64_MAX};
}

/* Decides a comparison that has one result for all sizes. */
static bool decide(tsr_operator op, tsr_dim_range difference, bool *out) {
    int64_t low = difference.low, high = difference.high;
    bool equal = low == 0 && high == 0, apart = low > 0 || high < 0;
    switch (op) {
    case TSR_OPERATOR_EQUAL:
    case TSR_OPERATOR_NOT_EQUAL:
        *out = equal == (op == TSR_OPERATOR_EQUAL);
        return equal || apart;
    case TSR_OPERATOR_LESS:
        return *out = high < 0, high < 0 || low >= 0;
    case TSR_OPERATOR_LESS_EQUAL:
        return *out = high <= 0, high <= 0 || low > 0;
    case TSR_OPERATOR_GREATER:
        return *out = low > 0, low > 0 || high <= 0;
    case TSR_OPERATOR_GREATER_EQUAL:
        return *out = low >= 0, low >= 0 || high < 0;
    default:
        return false;
    }
}

static bool is_comparison(tsr_operator op) {
    return op == TSR_OPERATOR_EQUAL || op == TSR_OPERATOR_NOT_EQUAL || op == TSR_OPERATOR_LESS ||
           op == TSR_OPERATOR_LESS_EQUAL || op == TSR_OPERATOR_GREATER ||
           op == TSR_OPERATOR_GREATER_EQUAL;
}

static tsr_value compare(tsr_evaluator *e, tsr_operator op, const tsr_dim_expression *a,
                         const tsr_dim_expression *b, tsr_span span) {
    tsr_dim_expression difference;
    char x[TSR_DIM_TEXT_MAX], y[TSR_DIM_TEXT_MAX];
    bool truth;
    if (tsr_dim_expression_subtract(a, b, &difference) &&
        decide(op, tsr_dim_expression_range(&difference, any_size, NULL), &truth))
        return tsr_value_bool(truth);
    if (!tsr_dim_expression_print(a, x)) strcpy(x, "…");
    if (!tsr_dim_expression_print(b, y)) strcpy(y, "…");
    return tsr_evaluate_fail(e, span, TSR_DIAG_TRACE_DIMS,
                             "whether %s %s %s is not known while the program is compiled: the "
                             "dims have no size yet",
                             x, tsr_operator_text(op), y);
}

static tsr_value binary(tsr_evaluator *e, tsr_operator op, tsr_value a, tsr_value b,
                        tsr_span span) {
    tsr_dim_expression x, y;
    uint64_t dim;
    if (!read_expression(e, a, &x) || !read_expression(e, b, &y)) {
        if (op == TSR_OPERATOR_EQUAL || op == TSR_OPERATOR_NOT_EQUAL)
            return tsr_value_bool(op == TSR_OPERATOR_NOT_EQUAL);
        return tsr_evaluate_fail(e, span, TSR_DIAG_EVALUATE_TYPE, "'%s' does not take %s and %s",
                                 tsr_operator_text(op), tsr_value_type_name(a),
                                 tsr_value_type_name(b));
    }
    if (is_comparison(op)) return compare(e, op, &x, &y, span);
    if (!compute(e, op, &x, &y, &x) ||
        !tsr_dim_from_expression(tsr_tracer_of(e)->context, &x, &dim))
        return tsr_evaluate_fail(
            e, span, TSR_DIAG_TRACE_DIMS,
            "'%s' of these dims is not a dim: sums, differences, products, // and "
            "%% are, if they are at least 0",
            tsr_operator_text(op));
    return tsr_dim_object(e, dim);
}

static void repr(tsr_value self, tsr_buffer *out) {
    char text[TSR_DIM_TEXT_MAX];
    tsr_buffer_text(out, tsr_dim_text(*(const uint64_t *)self.object->data, text));
}

/* A dim that is at least 1 is true. */
static bool truth(tsr_evaluator *e, tsr_value self, tsr_span span, bool *out) {
    tsr_value is = binary(e, TSR_OPERATOR_NOT_EQUAL, self, tsr_value_integer(0), span);
    *out = is.kind && is.truth;
    return is.kind != TSR_VALUE_POISON;
}

const tsr_class tsr_dim_class = {
    .name = "a dim without a size", .binary = binary, .truth = truth, .repr = repr};

/* ---- shapes ---- */

bool tsr_argument_dims(tsr_evaluator *e, const tsr_argument *a, bool infers, uint64_t *out,
                       size_t *out_count) {
    bool list = a->value.kind == TSR_VALUE_LIST || a->value.kind == TSR_VALUE_TUPLE;
    const tsr_value *items = list ? a->value.list->items : &a->value;
    size_t count = list ? a->value.list->count : 1;
    if (count > TSR_RANK_MAX) return tsr_argument_refuse(e, a, "a list of ints");
    for (size_t i = 0; i < count; i++) {
        int64_t size;
        bool known = tsr_value_as_integer(items[i], &size);
        if (known && infers && size == -1) {
            out[i] = TSR_DIM_DYNAMIC;
        } else if (known && size < 1) {
            tsr_evaluate_fail(e, a->span, TSR_DIAG_EVALUATE_VALUE,
                              "dim %zu has size %d; expected at least 1", i, (int)size);
            return false;
        } else if (!read_dim(items[i], &out[i])) {
            return tsr_argument_refuse(e, a, "a list of ints");
        }
    }
    *out_count = count;
    return true;
}
