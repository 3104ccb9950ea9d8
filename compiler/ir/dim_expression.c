/* SPDX-License-Identifier: Apache-2.0
 *
 * Outline: polynomials · quotients and extrema · text · reading · values. An atom is stored as its
 * canonical text, and read again if its operands are needed.
 */
#include "compiler/ir/dim_expression.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { DEPTH_MAX = 48 };

typedef enum call { CALL_FLOOR, CALL_MIN, CALL_MAX, CALL_COUNT } call;

static const char *const call_names[CALL_COUNT] = {"floor", "min", "max"};

/* ---- polynomials ----------------------------------------------------------------------------- */

/* Negative: `a` comes first. The terms of a polynomial ascend by this order. */
static int compare_terms(const tsr_dim_term *a, const tsr_dim_term *b) {
    if (a->degree != b->degree) return a->degree > b->degree ? -1 : 1;
    for (uint32_t i = 0; i < a->degree; i++) {
        int order = strcmp(a->atoms[i], b->atoms[i]);
        if (order) return order;
    }
    return 0;
}

/* Adds one term; a sum of 0 is removed. */
static bool add_term(tsr_dim_expression *sum, const tsr_dim_term *term) {
    uint32_t at = 0;
    int order = 1;
    while (at < sum->count && (order = compare_terms(&sum->terms[at], term)) < 0) at++;
    if (at < sum->count && order == 0) {
        tsr_dim_term *same = &sum->terms[at];
        if (__builtin_add_overflow(same->factor, term->factor, &same->factor)) return false;
        if (same->factor == 0) {
            sum->count--;
            memmove(same, same + 1, (sum->count - at) * sizeof *same);
        }
        return true;
    }
    if (term->factor == 0) return true;
    if (sum->count == TSR_DIM_TERMS_MAX) return false;
    memmove(&sum->terms[at + 1], &sum->terms[at], (sum->count - at) * sizeof *term);
    sum->terms[at] = *term;
    sum->count++;
    return true;
}

static bool multiply_terms(const tsr_dim_term *a, const tsr_dim_term *b, tsr_dim_term *out) {
    tsr_dim_term product = {.degree = a->degree + b->degree};
    uint32_t x = 0, y = 0;
    if (product.degree > TSR_DIM_DEGREE_MAX ||
        __builtin_mul_overflow(a->factor, b->factor, &product.factor))
        return false;
    for (uint32_t i = 0; i < product.degree; i++) {
        bool take_a = y == b->degree || (x < a->degree && strcmp(a->atoms[x], b->atoms[y]) <= 0);
        product.atoms[i] = take_a ? a->atoms[x++] : b->atoms[y++];
    }
    *out = product;
    return true;
}

/* The term whose product with b is a. */
static bool divide_terms(const tsr_dim_term *a, const tsr_dim_term *b, tsr_dim_term *out) {
    tsr_dim_term quotient = {0};
    uint32_t y = 0;
    if ((b->factor == -1 && a->factor == INT64_MIN) || a->factor % b->factor) return false;
    quotient.factor = a->factor / b->factor;
    for (uint32_t x = 0; x < a->degree; x++)
        if (y < b->degree && strcmp(a->atoms[x], b->atoms[y]) == 0)
            y++;
        else
            quotient.atoms[quotient.degree++] = a->atoms[x];
    if (y < b->degree) return false;
    *out = quotient;
    return true;
}

tsr_dim_expression tsr_dim_expression_number(int64_t value) {
    tsr_dim_expression number = {.count = value != 0};
    number.terms[0].factor = value;
    return number;
}

bool tsr_dim_expression_is_number(const tsr_dim_expression *expression, int64_t *out_value) {
    if (expression->count > 1 || (expression->count && expression->terms[0].degree)) return false;
    *out_value = expression->count ? expression->terms[0].factor : 0;
    return true;
}

bool tsr_dim_expression_add(const tsr_dim_expression *a, const tsr_dim_expression *b,
                            tsr_dim_expression *out) {
    tsr_dim_expression sum = *a;
    for (uint32_t i = 0; i < b->count; i++)
        if (!add_term(&sum, &b->terms[i])) return false;
    *out = sum;
    return true;
}

/* Adds the product of a term and a polynomial. */
static bool add_product(tsr_dim_expression *sum, const tsr_dim_term *term,
                        const tsr_dim_expression *by) {
    for (uint32_t i = 0; i < by->count; i++) {
        tsr_dim_term product;
        if (!multiply_terms(term, &by->terms[i], &product) || !add_term(sum, &product))
            return false;
    }
    return true;
}

bool tsr_dim_expression_subtract(const tsr_dim_expression *a, const tsr_dim_expression *b,
                                 tsr_dim_expression *out) {
    const tsr_dim_term minus = {.factor = -1};
    tsr_dim_expression difference = *a;
    if (!add_product(&difference, &minus, b)) return false;
    *out = difference;
    return true;
}

bool tsr_dim_expression_multiply(const tsr_dim_expression *a, const tsr_dim_expression *b,
                                 tsr_dim_expression *out) {
    tsr_dim_expression product = {0};
    for (uint32_t i = 0; i < a->count; i++)
        if (!add_product(&product, &a->terms[i], b)) return false;
    *out = product;
    return true;
}

/* Long division by leading terms: each step removes the leading term of what is left. */
bool tsr_dim_expression_divide(const tsr_dim_expression *a, const tsr_dim_expression *b,
                               tsr_dim_expression *out) {
    tsr_dim_expression left = *a, quotient = {0};
    if (!b->count) return false;
    while (left.count) {
        tsr_dim_term term, minus;
        if (!divide_terms(&left.terms[0], &b->terms[0], &term) || !add_term(&quotient, &term))
            return false;
        minus = term;
        if (__builtin_sub_overflow(0, term.factor, &minus.factor) || !add_product(&left, &minus, b))
            return false;
    }
    *out = quotient;
    return true;
}

/* ---- quotients and extrema ------------------------------------------------------------------- */

static int64_t floor_quotient(int64_t a, int64_t b) { return a / b - (a % b < 0); }

/* a - b * floor(a / b), whose product can need more than 64 bits. */
static int64_t floor_remainder(int64_t a, int64_t b) { return a % b + (a % b < 0 ? b : 0); }

static int64_t common_divisor(int64_t a, int64_t b) {
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a < 0 ? -a : a;
}

static bool is_product(const tsr_dim_expression *e) {
    return e->count == 0 || (e->count == 1 && e->terms[0].factor >= 0);
}

/* A single atom, or a number that is not negative. */
static bool is_factor(const tsr_dim_expression *e) {
    return is_product(e) && (e->count == 0 || e->terms[0].degree == 0 ||
                             (e->terms[0].degree == 1 && e->terms[0].factor == 1));
}

/* An atom from the texts of its operands. */
static bool make_call(tsr_arena *arena, call of, const tsr_dim_expression *a,
                      const tsr_dim_expression *b, tsr_dim_expression *out) {
    char first[TSR_DIM_TEXT_MAX], second[TSR_DIM_TEXT_MAX], text[2 * TSR_DIM_TEXT_MAX + 16];
    if (!tsr_dim_expression_print(a, first) || !tsr_dim_expression_print(b, second)) return false;
    if (of == CALL_FLOOR)
        snprintf(text, sizeof text, is_product(a) ? "floor(%s/" : "floor((%s)/", first);
    else
        snprintf(text, sizeof text, "%s(%s, ", call_names[of], first);
    size_t used = strlen(text);
    snprintf(text + used, sizeof text - used, of == CALL_FLOOR && !is_factor(b) ? "(%s))" : "%s)",
             second);
    if (strlen(text) >= TSR_DIM_TEXT_MAX) return false;
    tsr_dim_expression made = {.count = 1, .terms = {{.factor = 1, .degree = 1}}};
    made.terms[0].atoms[0] = tsr_arena_strdup(arena, text);
    if (!made.terms[0].atoms[0]) return false;
    *out = made;
    return true;
}

/* floor(a / c): takes out the multiples of c, then the common divisor of what is left. */
static bool floor_by_number(tsr_arena *arena, const tsr_dim_expression *a, int64_t c,
                            tsr_dim_expression *out) {
    tsr_dim_expression whole = {0}, rest = {0}, quotient;
    int64_t number, common = c;
    for (uint32_t i = 0; i < a->count; i++) {
        tsr_dim_term part = a->terms[i], left = part;
        part.factor = floor_quotient(part.factor, c);
        left.factor = floor_remainder(left.factor, c);
        if (!add_term(&whole, &part) || !add_term(&rest, &left)) return false;
    }
    if (tsr_dim_expression_is_number(&rest, &number)) {
        *out = whole; /* 0 <= number < c */
        return true;
    }
    for (uint32_t i = 0; i < rest.count; i++)
        if (rest.terms[i].degree) common = common_divisor(rest.terms[i].factor, common);
    tsr_dim_expression reduced = {0};
    for (uint32_t i = 0; i < rest.count; i++) {
        tsr_dim_term part = rest.terms[i];
        part.factor = floor_quotient(part.factor, common);
        if (!add_term(&reduced, &part)) return false;
    }
    tsr_dim_expression divisor = tsr_dim_expression_number(c / common);
    return make_call(arena, CALL_FLOOR, &reduced, &divisor, &quotient) &&
           tsr_dim_expression_add(&whole, &quotient, out);
}

bool tsr_dim_expression_floor(tsr_arena *arena, const tsr_dim_expression *a,
                              const tsr_dim_expression *b, tsr_dim_expression *out) {
    int64_t number;
    if (tsr_dim_expression_is_number(b, &number))
        return number >= 1 && floor_by_number(arena, a, number, out);
    return tsr_dim_expression_divide(a, b, out) || make_call(arena, CALL_FLOOR, a, b, out);
}

/* Decides where the difference is a number; otherwise the operands are in the order of their texts.
 */
static bool choose(tsr_arena *arena, call of, const tsr_dim_expression *a,
                   const tsr_dim_expression *b, tsr_dim_expression *out) {
    char first[TSR_DIM_TEXT_MAX], second[TSR_DIM_TEXT_MAX];
    tsr_dim_expression difference;
    int64_t number;
    if (!tsr_dim_expression_subtract(a, b, &difference)) return false;
    if (tsr_dim_expression_is_number(&difference, &number)) {
        *out = (number > 0) == (of == CALL_MAX) ? *a : *b;
        return true;
    }
    if (!tsr_dim_expression_print(a, first) || !tsr_dim_expression_print(b, second)) return false;
    return strcmp(first, second) < 0 ? make_call(arena, of, a, b, out)
                                     : make_call(arena, of, b, a, out);
}

bool tsr_dim_expression_min(tsr_arena *arena, const tsr_dim_expression *a,
                            const tsr_dim_expression *b, tsr_dim_expression *out) {
    return choose(arena, CALL_MIN, a, b, out);
}

bool tsr_dim_expression_max(tsr_arena *arena, const tsr_dim_expression *a,
                            const tsr_dim_expression *b, tsr_dim_expression *out) {
    return choose(arena, CALL_MAX, a, b, out);
}

/* ---- text ------------------------------------------------------------------------------------ */

typedef struct writer {
    char *text;
    size_t used;
    bool full;
} writer;

static void write_text(writer *w, const char *text) {
    size_t length = strlen(text);
    if (w->full || w->used + length >= TSR_DIM_TEXT_MAX) {
        w->full = true;
        return;
    }
    memcpy(w->text + w->used, text, length + 1);
    w->used += length;
}

static void write_term(writer *w, const tsr_dim_term *term, bool first) {
    char number[32];
    uint64_t size = term->factor < 0 ? -(uint64_t)term->factor : (uint64_t)term->factor;
    write_text(w, term->factor < 0 ? (first ? "-" : " - ") : (first ? "" : " + "));
    snprintf(number, sizeof number, "%" PRIu64, size);
    if (size != 1 || !term->degree) write_text(w, number);
    for (uint32_t i = 0; i < term->degree; i++) {
        if (i || size != 1) write_text(w, "*");
        write_text(w, term->atoms[i]);
    }
}

bool tsr_dim_expression_print(const tsr_dim_expression *expression,
                              char out_text[TSR_DIM_TEXT_MAX]) {
    writer w = {.text = out_text};
    out_text[0] = '\0';
    if (!expression->count) write_text(&w, "0");
    for (uint32_t i = 0; i < expression->count; i++) write_term(&w, &expression->terms[i], i == 0);
    return !w.full;
}

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct reader {
    tsr_arena *arena;
    const char *text;
    size_t size_bytes, at;
    tsr_dim_error error; /* .text is NULL before the first error */
    unsigned depth;
} reader;

static bool read_sum(reader *r, tsr_dim_expression *out);
static bool read_product(reader *r, tsr_dim_expression *out);
static bool read_factor(reader *r, tsr_dim_expression *out);

static bool refuse(reader *r, const char *text) {
    if (!r->error.text) r->error = (tsr_dim_error){text, r->at};
    return false;
}

static const char too_large[] = "the expression is too large";

static void skip_blanks(reader *r) {
    while (r->at < r->size_bytes && r->text[r->at] == ' ') r->at++;
}

/* Takes the character if it is the next one. */
static bool take(reader *r, char c) {
    skip_blanks(r);
    if (r->at == r->size_bytes || r->text[r->at] != c) return false;
    r->at++;
    return true;
}

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static size_t name_length(const char *text, size_t size_bytes) {
    size_t length = 0;
    while (length < size_bytes &&
           (is_letter(text[length]) || (length && (is_digit(text[length]) || text[length] == '.'))))
        length++;
    return length;
}

static call call_of(const char *name, size_t length) {
    call of = 0;
    while (of < CALL_COUNT &&
           (strlen(call_names[of]) != length || memcmp(call_names[of], name, length) != 0))
        of++;
    return of;
}

bool tsr_dim_is_symbol(const char *text, size_t size_bytes) {
    return size_bytes && size_bytes <= TSR_DIM_SYMBOL_MAX &&
           name_length(text, size_bytes) == size_bytes && call_of(text, size_bytes) == CALL_COUNT;
}

/* "(" operand ("/" | ",") operand ")" */
static bool read_operands(reader *r, call of, tsr_dim_expression *out_a,
                          tsr_dim_expression *out_b) {
    bool is_floor = of == CALL_FLOOR;
    if (!take(r, '(')) return refuse(r, "expected '('");
    if (!(is_floor ? read_product(r, out_a) : read_sum(r, out_a))) return false;
    if (!take(r, is_floor ? '/' : ','))
        return refuse(r, is_floor ? "expected '/'" : "expected ','");
    if (!(is_floor ? read_factor(r, out_b) : read_sum(r, out_b))) return false;
    return take(r, ')') || refuse(r, "expected ')'");
}

static bool apply(reader *r, call of, const tsr_dim_expression *a, const tsr_dim_expression *b,
                  tsr_dim_expression *out) {
    int64_t divisor;
    if (of == CALL_MIN) return tsr_dim_expression_min(r->arena, a, b, out) || refuse(r, too_large);
    if (of == CALL_MAX) return tsr_dim_expression_max(r->arena, a, b, out) || refuse(r, too_large);
    if (tsr_dim_expression_is_number(b, &divisor) && divisor < 1)
        return refuse(r, "the divisor is below 1");
    return tsr_dim_expression_floor(r->arena, a, b, out) || refuse(r, too_large);
}

static bool read_name(reader *r, tsr_dim_expression *out) {
    const char *name = r->text + r->at;
    size_t length = name_length(name, r->size_bytes - r->at);
    call of = call_of(name, length);
    if (of != CALL_COUNT) {
        tsr_dim_expression a, b;
        r->at += length;
        return read_operands(r, of, &a, &b) && apply(r, of, &a, &b, out);
    }
    if (length > TSR_DIM_SYMBOL_MAX) return refuse(r, "the symbol has more than 63 bytes");
    tsr_dim_expression symbol = {.count = 1, .terms = {{.factor = 1, .degree = 1}}};
    symbol.terms[0].atoms[0] = tsr_arena_strndup(r->arena, name, length);
    if (!symbol.terms[0].atoms[0]) return refuse(r, "no memory");
    r->at += length;
    *out = symbol;
    return true;
}

static bool read_number(reader *r, tsr_dim_expression *out) {
    int64_t value = 0;
    while (r->at < r->size_bytes && is_digit(r->text[r->at])) {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, r->text[r->at] - '0', &value))
            return refuse(r, "the number has more than 63 bits");
        r->at++;
    }
    *out = tsr_dim_expression_number(value);
    return true;
}

static bool read_factor(reader *r, tsr_dim_expression *out) {
    bool done;
    skip_blanks(r);
    if (r->at == r->size_bytes) return refuse(r, "expected a symbol or an integer");
    if (r->depth == DEPTH_MAX) return refuse(r, "the expression is nested too deeply");
    r->depth++;
    if (is_digit(r->text[r->at]))
        done = read_number(r, out);
    else if (is_letter(r->text[r->at]))
        done = read_name(r, out);
    else if (take(r, '('))
        done = read_sum(r, out) && (take(r, ')') || refuse(r, "expected ')'"));
    else
        done = refuse(r, "expected a symbol or an integer");
    r->depth--;
    return done;
}

static bool read_product(reader *r, tsr_dim_expression *out) {
    tsr_dim_expression product, factor;
    if (!read_factor(r, &product)) return false;
    while (take(r, '*')) {
        if (!read_factor(r, &factor)) return false;
        if (!tsr_dim_expression_multiply(&product, &factor, &product)) return refuse(r, too_large);
    }
    *out = product;
    return true;
}

static bool read_sum(reader *r, tsr_dim_expression *out) {
    tsr_dim_expression sum = {0}, term;
    bool minus = take(r, '-');
    for (;;) {
        if (!read_product(r, &term)) return false;
        if (!(minus ? tsr_dim_expression_subtract(&sum, &term, &sum)
                    : tsr_dim_expression_add(&sum, &term, &sum)))
            return refuse(r, too_large);
        if (take(r, '+'))
            minus = false;
        else if (take(r, '-'))
            minus = true;
        else
            break;
    }
    *out = sum;
    return true;
}

bool tsr_dim_expression_parse(tsr_arena *arena, const char *text, size_t size_bytes,
                              tsr_dim_expression *out_expression, tsr_dim_error *out_error) {
    reader r = {.arena = arena, .text = text, .size_bytes = size_bytes};
    tsr_dim_expression read;
    bool done = read_sum(&r, &read);
    skip_blanks(&r);
    if (done && r.at < size_bytes) done = refuse(&r, "expected an operator or the end");
    if (done)
        *out_expression = read;
    else
        *out_error = r.error;
    return done;
}

/* ---- values ---------------------------------------------------------------------------------- */

static const tsr_dim_range unbounded = {INT64_MIN, INT64_MAX};

/* These three return the nearest number if the result needs more than 64 bits. */
static int64_t add(int64_t a, int64_t b) {
    int64_t sum;
    if (__builtin_add_overflow(a, b, &sum)) return a < 0 ? INT64_MIN : INT64_MAX;
    return sum;
}

static int64_t multiply(int64_t a, int64_t b) {
    int64_t product;
    if (__builtin_mul_overflow(a, b, &product)) return (a < 0) == (b < 0) ? INT64_MAX : INT64_MIN;
    return product;
}

static int64_t negate(int64_t a) { return a == INT64_MIN ? INT64_MAX : -a; }

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

static bool is_bounded(tsr_dim_range range) {
    return range.low != INT64_MIN && range.high != INT64_MAX;
}

static tsr_dim_range multiply_ranges(tsr_dim_range a, tsr_dim_range b) {
    if (a.low >= 0 && b.low >= 0) /* INT64_MAX times 0 is 0 here, as no value is infinite */
        return (tsr_dim_range){multiply(a.low, b.low), multiply(a.high, b.high)};
    if (!is_bounded(a) || !is_bounded(b)) return unbounded;
    int64_t p = multiply(a.low, b.low), q = multiply(a.low, b.high), r = multiply(a.high, b.low),
            s = multiply(a.high, b.high);
    return (tsr_dim_range){least(least(p, q), least(r, s)), most(most(p, q), most(r, s))};
}

static tsr_dim_range add_ranges(tsr_dim_range a, tsr_dim_range b) {
    bool above = a.low != INT64_MIN && b.low != INT64_MIN;
    bool below = a.high != INT64_MAX && b.high != INT64_MAX;
    return (tsr_dim_range){above ? add(a.low, b.low) : INT64_MIN,
                           below ? add(a.high, b.high) : INT64_MAX};
}

/* The negative of a range: a side without a bound becomes the other side without one. */
static tsr_dim_range negate_range(tsr_dim_range a) {
    return (tsr_dim_range){a.high == INT64_MAX ? INT64_MIN : negate(a.high), negate(a.low)};
}

/* INT64_MAX stands for any larger divisor, too. */
static int64_t divide(int64_t a, int64_t b) {
    if (b == INT64_MAX) return a < 0 ? -1 : 0;
    return floor_quotient(a, b);
}

/* A quotient by 0 does not exist. */
static tsr_dim_range divide_ranges(tsr_dim_range a, tsr_dim_range b) {
    if (b.low < 1) return unbounded;
    int64_t low = a.low == INT64_MIN ? INT64_MIN : divide(a.low, a.low < 0 ? b.low : b.high);
    int64_t high = a.high == INT64_MAX ? INT64_MAX : divide(a.high, a.high < 0 ? b.high : b.low);
    return (tsr_dim_range){low, high};
}

/* The operands of an atom; a symbol, CALL_COUNT, has none. False: no memory. */
static bool read_atom(tsr_arena *arena, const char *atom, call *out_of, tsr_dim_expression *out_a,
                      tsr_dim_expression *out_b) {
    reader r = {.arena = arena, .text = atom, .size_bytes = strlen(atom)};
    r.at = name_length(atom, r.size_bytes);
    *out_of = call_of(atom, r.at);
    return *out_of == CALL_COUNT || read_operands(&r, *out_of, out_a, out_b);
}

static tsr_dim_range range_of_atom(const char *atom, tsr_dim_range_of range_of, void *user) {
    tsr_arena arena = {0};
    tsr_dim_expression operands[2];
    tsr_dim_range range = unbounded, a, b;
    call of;
    bool read = read_atom(&arena, atom, &of, &operands[0], &operands[1]);
    if (read && of == CALL_COUNT) {
        range = range_of(user, atom);
    } else if (read) {
        a = tsr_dim_expression_range(&operands[0], range_of, user);
        b = tsr_dim_expression_range(&operands[1], range_of, user);
        range = of == CALL_FLOOR ? divide_ranges(a, b)
                : of == CALL_MIN ? (tsr_dim_range){least(a.low, b.low), least(a.high, b.high)}
                                 : (tsr_dim_range){most(a.low, b.low), most(a.high, b.high)};
    }
    tsr_arena_finish(&arena);
    return range;
}

tsr_dim_range tsr_dim_expression_range(const tsr_dim_expression *expression,
                                       tsr_dim_range_of range_of, void *user) {
    tsr_dim_range sum = {0, 0};
    for (uint32_t i = 0; i < expression->count; i++) {
        const tsr_dim_term *term = &expression->terms[i];
        uint64_t size = term->factor < 0 ? -(uint64_t)term->factor : (uint64_t)term->factor;
        int64_t factor = size > INT64_MAX ? INT64_MAX : (int64_t)size;
        tsr_dim_range product = {factor, factor};
        for (uint32_t k = 0; k < term->degree; k++)
            product = multiply_ranges(product, range_of_atom(term->atoms[k], range_of, user));
        if (term->factor < 0) product = negate_range(product);
        sum = add_ranges(sum, product);
    }
    return sum;
}

bool tsr_dim_expression_symbols(const tsr_dim_expression *expression,
                                void (*each)(void *user, const char *symbol), void *user) {
    bool done = true;
    for (uint32_t i = 0; i < expression->count; i++)
        for (uint32_t k = 0; k < expression->terms[i].degree; k++) {
            const char *atom = expression->terms[i].atoms[k];
            tsr_arena arena = {0};
            tsr_dim_expression a, b;
            call of;
            bool read = read_atom(&arena, atom, &of, &a, &b);
            if (read && of == CALL_COUNT)
                each(user, atom);
            else
                done = done && read && tsr_dim_expression_symbols(&a, each, user) &&
                       tsr_dim_expression_symbols(&b, each, user);
            tsr_arena_finish(&arena);
        }
    return done;
}
