/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/graph/constraints/constraints.h"
#include "runtime/base/array.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

uint32_t tsr_constraints_symbol(tsr_constraints *set, const char *name, size_t size_bytes) {
    for (uint32_t i = 0; i < set->symbol_count; i++)
        if (strlen(set->symbols[i]) == size_bytes && memcmp(set->symbols[i], name, size_bytes) == 0)
            return i;
    if (set->symbol_count == set->symbol_capacity) {
        const char **larger = TSR_ARENA_GROW(set->arena, set->symbols, &set->symbol_capacity, 64);
        if (!larger) return UINT32_MAX;
        set->symbols = larger;
    }
    set->symbols[set->symbol_count] = tsr_arena_strndup(set->arena, name, size_bytes);
    return set->symbols[set->symbol_count] ? set->symbol_count++ : UINT32_MAX;
}

typedef struct reader {
    tsr_constraints *set;
    const char *text;
    tsr_dim_error *error;
} reader;

static bool fail(reader *r, size_t at, const char *text) {
    *r->error = (tsr_dim_error){text, at};
    return false;
}

/* The operator of a constraint, and where it stands. */
typedef struct operator{
    const char *text;
    size_t at, length;
}
operator_of;

static bool find_operator(const char *text, operator_of *out_operator) {
    static const char *const words[] = {"==", "!=", "<=", ">=", "<", ">", " in "};
    for (size_t at = 0; text[at]; at++)
        for (size_t i = 0; i < TSR_COUNT(words); i++) {
            size_t length = strlen(words[i]);
            if (strncmp(text + at, words[i], length) != 0) continue;
            *out_operator = (operator_of){words[i], at, length};
            return true;
        }
    return false;
}

static bool read_expression(reader *r, size_t begin, size_t end, tsr_dim_expression *out) {
    tsr_dim_error error;
    while (begin < end && r->text[begin] == ' ') begin++;
    while (end > begin && r->text[end - 1] == ' ') end--;
    if (!tsr_dim_expression_parse(r->set->arena, r->text + begin, end - begin, out, &error))
        return fail(r, begin + error.at, error.text);
    return true;
}

static bool read_integer(reader *r, size_t begin, size_t end, int64_t *out_value) {
    tsr_dim_expression e;
    return read_expression(r, begin, end, &e) &&
           (tsr_dim_expression_is_number(&e, out_value) || fail(r, begin, "expected an integer"));
}

static bool add_part(reader *r, tsr_constraint *to, const tsr_dim_expression *e, int kind) {
    tsr_constraint_part *part = &to->parts[to->part_count++];
    *part = (tsr_constraint_part){.kind = (unsigned)kind, .count = e->count};
    for (uint32_t i = 0; i < e->count; i++) {
        tsr_constraint_term *term = &part->terms[i];
        *term = (tsr_constraint_term){e->terms[i].factor, e->terms[i].degree, {0}};
        for (uint32_t k = 0; k < term->degree; k++) {
            const char *atom = e->terms[i].atoms[k];
            if (!tsr_dim_is_symbol(atom, strlen(atom)))
                return fail(r, 0, "constraints have no floor, min or max");
            term->symbols[k] = tsr_constraints_symbol(r->set, atom, strlen(atom));
            if (term->symbols[k] == UINT32_MAX) return fail(r, 0, "no memory");
        }
    }
    return true;
}

/* larger - smaller - strict >= 0 */
static bool add_order(reader *r, tsr_constraint *to, const tsr_dim_expression *larger,
                      const tsr_dim_expression *smaller, bool strict) {
    tsr_dim_expression e, one = tsr_dim_expression_number(strict);
    if (!tsr_dim_expression_subtract(larger, smaller, &e) ||
        !tsr_dim_expression_subtract(&e, &one, &e))
        return fail(r, 0, "needs more than 64 bits");
    return add_part(r, to, &e, TSR_PART_NOT_NEGATIVE);
}

static bool read_range(reader *r, tsr_constraint *to, const tsr_dim_expression *left, size_t at) {
    const char *dots = strstr(r->text + at, "..");
    int64_t low, high;
    if (!dots) return fail(r, at, "expected a range, such as 1..=64");
    size_t middle = (size_t)(dots - r->text), begin = middle + 2;
    bool is_closed = r->text[begin] == '=';
    if (!read_integer(r, at, middle, &low) ||
        !read_integer(r, begin + is_closed, strlen(r->text), &high))
        return false;
    if (low > high - !is_closed) return fail(r, at, "the range is empty");
    tsr_dim_expression a = tsr_dim_expression_number(low), b = tsr_dim_expression_number(high);
    return add_order(r, to, left, &a, false) && add_order(r, to, &b, left, !is_closed);
}

static bool read_modulo(reader *r, tsr_constraint *to, size_t percent, const operator_of *op) {
    tsr_dim_expression left;
    int64_t modulus, residue;
    if (strcmp(op->text, "==") != 0) return fail(r, op->at, "after %, expected ==");
    if (!read_expression(r, 0, percent, &left) || !read_integer(r, percent + 1, op->at, &modulus) ||
        !read_integer(r, op->at + op->length, strlen(r->text), &residue))
        return false;
    if (modulus < 1 || modulus > INT32_MAX)
        return fail(r, percent + 1, "expected a divisor from 1 to 2^31 - 1");
    if (residue < 0 || residue >= modulus)
        return fail(r, op->at + op->length, "expected a remainder below the divisor");
    if (!add_part(r, to, &left, TSR_PART_MODULO)) return false;
    to->parts[to->part_count - 1].modulus = modulus;
    to->parts[to->part_count - 1].residue = residue;
    return true;
}

static bool read_comparison(reader *r, tsr_constraint *to, const operator_of *op) {
    tsr_dim_expression left, right, e;
    size_t behind = op->at + op->length;
    if (!read_expression(r, 0, op->at, &left)) return false;
    if (op->text[0] == ' ') return read_range(r, to, &left, behind);
    if (!read_expression(r, behind, strlen(r->text), &right)) return false;
    if (op->text[0] == '<') return add_order(r, to, &right, &left, op->length == 1);
    if (op->text[0] == '>') return add_order(r, to, &left, &right, op->length == 1);
    if (!tsr_dim_expression_subtract(&left, &right, &e))
        return fail(r, op->at, "needs more than 64 bits");
    return add_part(r, to, &e, op->text[0] == '!' ? TSR_PART_NOT_ZERO : TSR_PART_ZERO);
}

bool tsr_constraints_add(tsr_constraints *set, const char *text, tsr_dim_error *out_error) {
    reader r = {set, text, out_error};
    operator_of op;
    tsr_constraint made = {.text = tsr_arena_strdup(set->arena, text)};
    const char *percent = strchr(text, '%');
    if (!made.text) return fail(&r, 0, "no memory");
    if (set->count == TSR_CONSTRAINTS_MAX) return fail(&r, 0, "there are more than 4096");
    if (!find_operator(text, &op))
        return fail(&r, strlen(text), "expected ==, !=, <, <=, >, >= or in");
    bool read = percent && percent < text + op.at
                    ? read_modulo(&r, &made, (size_t)(percent - text), &op)
                    : read_comparison(&r, &made, &op);
    if (!read) return false;
    if (set->count == set->capacity) {
        tsr_constraint *larger = TSR_ARENA_GROW(set->arena, set->list, &set->capacity, 16);
        if (!larger) return fail(&r, 0, "no memory");
        set->list = larger;
    }
    set->list[set->count++] = made;
    return true;
}
