/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators over values that are known, with CPython's results. Integers have 64 bits: where
 * CPython's would need more, there is an error.
 */
#include "compiler/frontend/language/evaluate/evaluate.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static tsr_value refuse_types(tsr_evaluator *e, tsr_operator op, tsr_value a, tsr_value b,
                              tsr_span span) {
    return tsr_evaluate_fail(e, span, TSR_DIAG_EVALUATE_TYPE, "'%s' does not take %s and %s",
                             tsr_operator_text(op), tsr_value_type_name(a), tsr_value_type_name(b));
}

static tsr_value overflow(tsr_evaluator *e, tsr_operator op, int64_t a, int64_t b, tsr_span span) {
    return tsr_evaluate_fail(e, span, TSR_DIAG_EVALUATE_VALUE,
                             "%" PRId64 " %s %" PRId64 " needs more than 64 bits", a,
                             tsr_operator_text(op), b);
}

static tsr_value divide_by_zero(tsr_evaluator *e, tsr_span span) {
    return tsr_evaluate_fail(e, span, TSR_DIAG_EVALUATE_VALUE, "the divisor is 0");
}

/* ---- integers ---- */

__extension__ typedef unsigned __int128 uint128;

/* a / b, correctly rounded: a quotient of at least 64 bits, its last bit set if there is a rest. */
static double divide(int64_t a, int64_t b) {
    uint64_t x = a < 0 ? 0 - (uint64_t)a : (uint64_t)a, y = b < 0 ? 0 - (uint64_t)b : (uint64_t)b;
    if (!x) return b < 0 ? -0.0 : 0.0;
    int shift = 63 + __builtin_clzll(x);
    uint128 scaled = (uint128)x << shift, quotient = scaled / y;
    if (scaled % y) quotient |= 1;
    double result = ldexp((double)quotient, -shift);
    return (a < 0) == (b < 0) ? result : -result;
}

static int64_t floor_divide(int64_t a, int64_t b) {
    int64_t q = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

static tsr_value power(tsr_evaluator *e, int64_t base, int64_t exponent, tsr_span span) {
    int64_t result = 1, factor = base;
    bool wide = false; /* the factor itself did not fit */
    if (exponent < 0 && base == 0)
        return tsr_evaluate_fail(e, span, TSR_DIAG_EVALUATE_VALUE, "0 has no negative power");
    if (exponent < 0) return tsr_value_real(pow((double)base, (double)exponent));
    for (uint64_t n = (uint64_t)exponent; n; n >>= 1) {
        if ((n & 1) && (wide || __builtin_mul_overflow(result, factor, &result)))
            return overflow(e, TSR_OPERATOR_POWER, base, exponent, span);
        if (n > 1) wide = wide || __builtin_mul_overflow(factor, factor, &factor);
    }
    return tsr_value_integer(result);
}

static tsr_value shift(tsr_evaluator *e, tsr_operator op, int64_t a, int64_t b, tsr_span span) {
    if (b < 0)
        return tsr_evaluate_fail(e, span, TSR_DIAG_EVALUATE_VALUE,
                                 "a number is shifted by %" PRId64 " bits; expected at least 0", b);
    if (op == TSR_OPERATOR_SHIFT_RIGHT)
        return tsr_value_integer(b > 63 ? (a < 0 ? -1 : 0) : a >> b);
    if (a == 0) return tsr_value_integer(0);
    int64_t shifted = b > 63 ? 0 : (int64_t)((uint64_t)a << b);
    if (b > 63 || shifted >> b != a) return overflow(e, op, a, b, span);
    return tsr_value_integer(shifted);
}

static tsr_value operate_integers(tsr_evaluator *e, tsr_operator op, int64_t a, int64_t b,
                                  tsr_span span) {
    int64_t result = 0;
    bool failed = false;
    switch (op) {
    case TSR_OPERATOR_ADD:
        failed = __builtin_add_overflow(a, b, &result);
        break;
    case TSR_OPERATOR_SUBTRACT:
        failed = __builtin_sub_overflow(a, b, &result);
        break;
    case TSR_OPERATOR_MULTIPLY:
        failed = __builtin_mul_overflow(a, b, &result);
        break;
    case TSR_OPERATOR_DIVIDE:
        return b ? tsr_value_real(divide(a, b)) : divide_by_zero(e, span);
    case TSR_OPERATOR_FLOOR:
    case TSR_OPERATOR_REMAINDER:
        if (!b) return divide_by_zero(e, span);
        failed = op == TSR_OPERATOR_FLOOR && a == INT64_MIN && b == -1;
        if (failed) break;
        if (b == -1)
            result = op == TSR_OPERATOR_FLOOR ? -a : 0;
        else
            result = op == TSR_OPERATOR_FLOOR ? floor_divide(a, b) : a - floor_divide(a, b) * b;
        break;
    case TSR_OPERATOR_POWER:
        return power(e, a, b, span);
    case TSR_OPERATOR_SHIFT_LEFT:
    case TSR_OPERATOR_SHIFT_RIGHT:
        return shift(e, op, a, b, span);
    case TSR_OPERATOR_BIT_AND:
        result = a & b;
        break;
    case TSR_OPERATOR_BIT_OR:
        result = a | b;
        break;
    case TSR_OPERATOR_BIT_XOR:
        result = a ^ b;
        break;
    default:
        return refuse_types(e, op, tsr_value_integer(a), tsr_value_integer(b), span);
    }
    return failed ? overflow(e, op, a, b, span) : tsr_value_integer(result);
}

/* ---- floats ---- */

/* The quotient to the floor and the remainder with the sign of the divisor, as CPython has them. */
static void floor_divide_reals(double a, double b, double *out_quotient, double *out_rest) {
    double rest = fmod(a, b), quotient = (a - rest) / b;
    if (rest == 0) {
        rest = copysign(0.0, b);
    } else if ((b < 0) != (rest < 0)) {
        rest += b;
        quotient -= 1;
    }
    double whole = quotient == 0 ? copysign(0.0, a / b) : floor(quotient);
    if (quotient != 0 && quotient - whole > 0.5) whole += 1;
    *out_quotient = whole;
    *out_rest = rest;
}

static tsr_value power_reals(tsr_evaluator *e, double a, double b, tsr_span span) {
    if (a == 0 && b < 0)
        return tsr_evaluate_fail(e, span, TSR_DIAG_EVALUATE_VALUE, "0 has no negative power");
    if (a < 0 && isfinite(a) && isfinite(b) && b != floor(b))
        return tsr_evaluate_fail(e, span, TSR_DIAG_EVALUATE_VALUE,
                                 "the power of a negative number by a fraction is complex");
    double result = pow(a, b);
    if (isinf(result) && isfinite(a) && isfinite(b))
        return tsr_evaluate_fail(e, span, TSR_DIAG_EVALUATE_VALUE,
                                 "the power is too large for a float");
    return tsr_value_real(result);
}

static tsr_value operate_reals(tsr_evaluator *e, tsr_operator op, double a, double b,
                               tsr_span span) {
    double quotient, rest;
    switch (op) {
    case TSR_OPERATOR_ADD:
        return tsr_value_real(a + b);
    case TSR_OPERATOR_SUBTRACT:
        return tsr_value_real(a - b);
    case TSR_OPERATOR_MULTIPLY:
        return tsr_value_real(a * b);
    case TSR_OPERATOR_DIVIDE:
        return b != 0 ? tsr_value_real(a / b) : divide_by_zero(e, span);
    case TSR_OPERATOR_FLOOR:
    case TSR_OPERATOR_REMAINDER:
        if (b == 0) return divide_by_zero(e, span);
        floor_divide_reals(a, b, &quotient, &rest);
        return tsr_value_real(op == TSR_OPERATOR_FLOOR ? quotient : rest);
    case TSR_OPERATOR_POWER:
        return power_reals(e, a, b, span);
    default:
        return refuse_types(e, op, tsr_value_real(a), tsr_value_real(b), span);
    }
}

/* ---- sequences ---- */

static bool is_list(tsr_value v) { return v.kind == TSR_VALUE_TUPLE || v.kind == TSR_VALUE_LIST; }

static tsr_value join(tsr_evaluator *e, tsr_value a, tsr_value b, tsr_span span) {
    if (tsr_value_is_text(a)) {
        tsr_buffer text = {0};
        if (!tsr_evaluate_charge(e, (a.text->size_bytes + b.text->size_bytes) / 16, span))
            return TSR_POISON;
        tsr_buffer_append(&text, a.text->bytes, a.text->size_bytes);
        tsr_buffer_append(&text, b.text->bytes, b.text->size_bytes);
        tsr_value joined = tsr_value_text(e->arena, text.bytes, text.size_bytes);
        if (text.failed) joined = TSR_POISON;
        tsr_buffer_finish(&text);
        return joined.kind ? joined : tsr_evaluate_no_memory(e);
    }
    size_t count = a.list->count + b.list->count;
    if (!tsr_evaluate_charge(e, count, span)) return TSR_POISON;
    tsr_value joined = tsr_value_list(e->arena, a.kind, count);
    if (!joined.kind) return tsr_evaluate_no_memory(e);
    for (size_t i = 0; i < count; i++)
        joined.list->items[i] =
            i < a.list->count ? a.list->items[i] : b.list->items[i - a.list->count];
    joined.list->count = count;
    return joined;
}

static tsr_value repeat(tsr_evaluator *e, tsr_value a, int64_t times, tsr_span span) {
    size_t once = tsr_value_is_text(a) ? a.text->size_bytes : a.list->count, total;
    if (times < 0) times = 0;
    if (__builtin_mul_overflow(once, (size_t)times, &total)) total = SIZE_MAX;
    if (!tsr_evaluate_charge(e, tsr_value_is_text(a) ? total / 16 : total, span)) return TSR_POISON;
    tsr_value out = tsr_value_is_text(a) ? tsr_value_text(e->arena, NULL, 0)
                                         : tsr_value_list(e->arena, a.kind, total);
    if (tsr_value_is_text(a)) {
        char *bytes = tsr_arena_alloc(e->arena, total + 1, 1, 1);
        tsr_ast_text *text = TSR_NEW(e->arena, tsr_ast_text, 1);
        if (!bytes || !text) return tsr_evaluate_no_memory(e);
        for (size_t i = 0; i < total; i++) bytes[i] = a.text->bytes[i % once];
        *text = (tsr_ast_text){bytes, total};
        return (tsr_value){.kind = TSR_VALUE_TEXT, .text = text};
    }
    if (!out.kind) return tsr_evaluate_no_memory(e);
    for (size_t i = 0; i < total; i++) out.list->items[i] = a.list->items[i % once];
    out.list->count = total;
    return out;
}

/* ---- comparisons ---- */

static bool has(tsr_evaluator *e, tsr_value container, tsr_value item, tsr_span span, bool *out) {
    size_t count;
    uint64_t hash;
    if (tsr_value_is_text(container) && tsr_value_is_text(item)) {
        *out = !item.text->size_bytes || memmem(container.text->bytes, container.text->size_bytes,
                                                item.text->bytes, item.text->size_bytes) != NULL;
        return true;
    }
    if (container.kind == TSR_VALUE_DICT) {
        if (!tsr_value_hash(item, &hash)) return false;
        *out = tsr_dict_find(container.dict, item, hash) != NULL;
        return true;
    }
    if (tsr_value_is_text(container) || !tsr_value_length(container, &count)) return false;
    if (container.kind == TSR_VALUE_RANGE && !tsr_evaluate_charge(e, count, span)) return false;
    *out = false;
    for (size_t i = 0; i < count && !*out; i++)
        *out = tsr_value_equal(tsr_value_item(e->arena, container, i), item);
    return true;
}

static tsr_value compare(tsr_evaluator *e, tsr_operator op, tsr_value a, tsr_value b,
                         tsr_span span) {
    int order = 0;
    bool truth;
    bool identical = a.kind == b.kind &&
                     (a.kind <= TSR_VALUE_BOOL ? tsr_value_equal(a, b) : a.object == b.object);
    if (!tsr_evaluate_measure(e, a, span) || !tsr_evaluate_measure(e, b, span)) return TSR_POISON;
    switch (op) {
    case TSR_OPERATOR_EQUAL:
        return tsr_value_bool(tsr_value_equal(a, b));
    case TSR_OPERATOR_NOT_EQUAL:
        return tsr_value_bool(!tsr_value_equal(a, b));
    case TSR_OPERATOR_IS:
        return tsr_value_bool(identical);
    case TSR_OPERATOR_IS_NOT:
        return tsr_value_bool(!identical);
    case TSR_OPERATOR_IN:
    case TSR_OPERATOR_NOT_IN:
        if (!has(e, b, a, span, &truth))
            return e->stopped ? TSR_POISON : refuse_types(e, op, a, b, span);
        return tsr_value_bool(truth == (op == TSR_OPERATOR_IN));
    default:
        break;
    }
    if (!tsr_value_compare(a, b, &order)) return refuse_types(e, op, a, b, span);
    if (order == 2) return tsr_value_bool(false);
    return tsr_value_bool(op == TSR_OPERATOR_LESS         ? order < 0
                          : op == TSR_OPERATOR_LESS_EQUAL ? order <= 0
                          : op == TSR_OPERATOR_GREATER    ? order > 0
                                                          : order >= 0);
}

/* ---- any operator ---- */

static const tsr_class *class_of(tsr_value v) {
    return v.kind == TSR_VALUE_OBJECT ? v.object->class : NULL;
}

static bool is_comparison(tsr_operator op) {
    return op >= TSR_OPERATOR_EQUAL && op <= TSR_OPERATOR_NOT_IN;
}

/* `is` and `in` are never those of a tensor. */
static bool is_of_object(tsr_operator op) {
    return op < TSR_OPERATOR_IS || op > TSR_OPERATOR_NOT_IN;
}

tsr_value tsr_evaluate_binary(tsr_evaluator *e, tsr_operator op, tsr_value a, tsr_value b,
                              tsr_span span) {
    int64_t i, k;
    double x, y;
    if (!a.kind || !b.kind) return TSR_POISON;
    const tsr_class *class = class_of(a) && class_of(a)->binary ? class_of(a) : class_of(b);
    if (class && class->binary && is_of_object(op)) return class->binary(e, op, a, b, span);
    if (is_comparison(op)) return compare(e, op, a, b, span);
    bool logic =
        op == TSR_OPERATOR_BIT_AND || op == TSR_OPERATOR_BIT_OR || op == TSR_OPERATOR_BIT_XOR;
    if (a.kind == TSR_VALUE_BOOL && b.kind == TSR_VALUE_BOOL && logic)
        return tsr_value_bool(op == TSR_OPERATOR_BIT_AND  ? a.truth && b.truth
                              : op == TSR_OPERATOR_BIT_OR ? a.truth || b.truth
                                                          : a.truth != b.truth);
    bool integers = tsr_value_as_integer(a, &i), second = tsr_value_as_integer(b, &k);
    if (integers && second) return operate_integers(e, op, i, k, span);
    if (tsr_value_as_real(a, &x) && tsr_value_as_real(b, &y))
        return operate_reals(e, op, x, y, span);
    bool sequence = is_list(a) || tsr_value_is_text(a);
    if (op == TSR_OPERATOR_ADD && sequence && a.kind == b.kind) return join(e, a, b, span);
    if (op == TSR_OPERATOR_MULTIPLY && sequence && second) return repeat(e, a, k, span);
    if (op == TSR_OPERATOR_MULTIPLY && integers && (is_list(b) || tsr_value_is_text(b)))
        return repeat(e, b, i, span);
    return refuse_types(e, op, a, b, span);
}

tsr_value tsr_evaluate_unary(tsr_evaluator *e, tsr_operator op, tsr_value a, tsr_span span) {
    int64_t i;
    bool truth;
    if (!a.kind) return TSR_POISON;
    if (op == TSR_OPERATOR_NOT)
        return tsr_evaluate_truth(e, a, span, &truth) ? tsr_value_bool(!truth) : TSR_POISON;
    if (class_of(a) && class_of(a)->unary) return class_of(a)->unary(e, op, a, span);
    if (tsr_value_as_integer(a, &i)) {
        if (op == TSR_OPERATOR_NEGATE && i == INT64_MIN)
            return tsr_evaluate_fail(e, span, TSR_DIAG_EVALUATE_VALUE,
                                     "-(%" PRId64 ") needs more than 64 bits", i);
        return tsr_value_integer(op == TSR_OPERATOR_NEGATE   ? -i
                                 : op == TSR_OPERATOR_INVERT ? ~i
                                                             : i);
    }
    if (a.kind == TSR_VALUE_FLOAT && op != TSR_OPERATOR_INVERT)
        return tsr_value_real(op == TSR_OPERATOR_NEGATE ? -a.real : a.real);
    return tsr_evaluate_fail(e, span, TSR_DIAG_EVALUATE_TYPE, "'%s' does not take %s",
                             tsr_operator_text(op), tsr_value_type_name(a));
}

/* ---- items ---- */

const tsr_class tsr_slice_class = {.name = "a slice"};

static bool read_bound(tsr_evaluator *e, tsr_value v, int64_t missing, tsr_span span,
                       int64_t *out) {
    if (v.kind == TSR_VALUE_NONE) {
        *out = missing;
        return true;
    }
    if (tsr_value_as_integer(v, out)) return true;
    tsr_evaluate_fail(e, span, TSR_DIAG_EVALUATE_TYPE, "the bound of a slice is %s, not an int",
                      tsr_value_type_name(v));
    return false;
}

static int64_t clamp(int64_t at, int64_t length, bool down) {
    if (at < 0) at = at < -length ? -1 : at + length;
    if (at < 0) return down ? -1 : 0;
    return at < length ? at : down ? length - 1 : length;
}

bool tsr_evaluate_slice(tsr_evaluator *e, const tsr_slice *slice, size_t length, tsr_span span,
                        int64_t *out_start, int64_t *out_stop, int64_t *out_step,
                        size_t *out_count) {
    int64_t start, stop, step, size = (int64_t)length;
    if (!read_bound(e, slice->step, 1, span, &step)) return false;
    if (step == 0) {
        tsr_evaluate_fail(e, span, TSR_DIAG_EVALUATE_VALUE, "the step of a slice is 0");
        return false;
    }
    bool down = step < 0;
    if (!read_bound(e, slice->lower, down ? size - 1 : 0, span, &start)) return false;
    if (!read_bound(e, slice->upper, down ? -size - 1 : size, span, &stop)) return false;
    start = slice->lower.kind == TSR_VALUE_NONE ? start : clamp(start, size, down);
    stop = slice->upper.kind == TSR_VALUE_NONE ? (down ? -1 : size) : clamp(stop, size, down);
    uint64_t distance = down ? (uint64_t)start - (uint64_t)stop : (uint64_t)stop - (uint64_t)start;
    uint64_t stride = down ? 0 - (uint64_t)step : (uint64_t)step;
    bool any = down ? start > stop : start < stop;
    *out_count = any ? (size_t)((distance - 1) / stride + 1) : 0;
    *out_start = start;
    *out_stop = stop;
    *out_step = step;
    return true;
}

static tsr_value select_slice(tsr_evaluator *e, tsr_value a, const tsr_slice *slice, size_t length,
                              tsr_span span) {
    int64_t start, stop, step;
    size_t count;
    if (!tsr_evaluate_slice(e, slice, length, span, &start, &stop, &step, &count))
        return TSR_POISON;
    if (!tsr_evaluate_charge(e, count, span)) return TSR_POISON;
    if (a.kind == TSR_VALUE_RANGE) {
        const tsr_range *r = a.range;
        int64_t first, stride, last;
        if (__builtin_mul_overflow(step, r->step, &stride) ||
            __builtin_mul_overflow(start, r->step, &first) ||
            __builtin_add_overflow(first, r->start, &first) ||
            __builtin_mul_overflow(stop, r->step, &last) ||
            __builtin_add_overflow(last, r->start, &last))
            return tsr_evaluate_fail(e, span, TSR_DIAG_EVALUATE_VALUE,
                                     "the slice of a range needs more than 64 bits");
        return tsr_value_range(e->arena, first, last, stride);
    }
    tsr_value list =
        tsr_value_list(e->arena, tsr_value_is_text(a) ? TSR_VALUE_LIST : a.kind, count);
    if (!list.kind) return tsr_evaluate_no_memory(e);
    tsr_buffer text = {0};
    for (size_t i = 0; i < count; i++, start += i < count ? step : 0) {
        tsr_value item = tsr_value_item(e->arena, a, (size_t)start);
        list.list->items[list.list->count++] = item;
        if (tsr_value_is_text(a) && item.kind)
            tsr_buffer_append(&text, item.text->bytes, item.text->size_bytes);
    }
    if (tsr_value_is_text(a)) list = tsr_value_text(e->arena, text.bytes, text.size_bytes);
    tsr_buffer_finish(&text);
    return list.kind ? list : tsr_evaluate_no_memory(e);
}

static tsr_value select_key(tsr_evaluator *e, const tsr_dict *dict, tsr_value key, tsr_span span) {
    uint64_t hash;
    if (!tsr_evaluate_measure(e, key, span)) return TSR_POISON;
    if (!tsr_value_hash(key, &hash))
        return tsr_evaluate_fail(e, span, TSR_DIAG_EVALUATE_TYPE, "%s cannot be a key of a dict",
                                 tsr_value_type_name(key));
    const tsr_value *found = tsr_dict_find(dict, key, hash);
    if (found) return *found;
    tsr_buffer text = {0};
    tsr_value_repr(key, &text);
    tsr_evaluate_fail(e, span, TSR_DIAG_EVALUATE_VALUE, "the dict has no key %s",
                      text.bytes ? text.bytes : "?");
    tsr_buffer_finish(&text);
    return TSR_POISON;
}

tsr_value tsr_evaluate_subscript(tsr_evaluator *e, tsr_value a, tsr_value index, tsr_span span) {
    size_t length;
    int64_t at;
    if (!a.kind || !index.kind) return TSR_POISON;
    if (class_of(a) && class_of(a)->subscript) return class_of(a)->subscript(e, a, index, span);
    if (a.kind == TSR_VALUE_DICT) return select_key(e, a.dict, index, span);
    if (!tsr_value_length(a, &length))
        return tsr_evaluate_fail(e, span, TSR_DIAG_EVALUATE_TYPE, "%s has no items",
                                 tsr_value_type_name(a));
    if (tsr_value_slice(index)) return select_slice(e, a, tsr_value_slice(index), length, span);
    if (!tsr_value_as_integer(index, &at))
        return tsr_evaluate_fail(e, span, TSR_DIAG_EVALUATE_TYPE,
                                 "the index of %s is %s, not an int or a slice",
                                 tsr_value_type_name(a), tsr_value_type_name(index));
    int64_t from = at < 0 ? at + (int64_t)length : at;
    if (from < 0 || (uint64_t)from >= length)
        return tsr_evaluate_fail(e, span, TSR_DIAG_EVALUATE_VALUE,
                                 "the index is %" PRId64 "; %s has %zu items", at,
                                 tsr_value_type_name(a), length);
    tsr_value item = tsr_value_item(e->arena, a, (size_t)from);
    return item.kind ? item : TSR_POISON;
}
