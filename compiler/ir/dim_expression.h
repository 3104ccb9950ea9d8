/* SPDX-License-Identifier: Apache-2.0
 *
 * Expressions over the symbols of open dims, such as "2*N + 1" or "floor((S + 3)/2)", in a
 * canonical form: equal forms are equal numbers for all values of the symbols.
 *
 *     expression   ["-"] term {("+" | "-") term}
 *     term         factor {"*" factor}
 *     factor       integer | symbol | "(" expression ")"
 *                  | "floor" "(" term "/" factor ")"
 *                  | ("min" | "max") "(" expression "," expression ")"
 *     symbol       a letter or "_", then letters, digits, "_" and "."; not floor, min or max
 *
 * The canonical form is a polynomial with integer coefficients. Its unknowns, the atoms, are
 * symbols, and quotients and extrema that are no polynomials. The terms are in graded lexicographic
 * order (Cox, Little, O'Shea: Ideals, Varieties, and Algorithms, section 2.2), in which polynomials
 * are divided, too.
 *
 * Out of memory counts as an exceeded limit; a range then has no bound.
 */
#ifndef TSR_COMPILER_DIM_EXPRESSION_H
#define TSR_COMPILER_DIM_EXPRESSION_H

#include "runtime/base/arena.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TSR_DIM_TERMS_MAX = 16,
    TSR_DIM_DEGREE_MAX = 8,  /* atoms multiplied in one term */
    TSR_DIM_SYMBOL_MAX = 63, /* bytes of a symbol */
    TSR_DIM_TEXT_MAX = 128   /* bytes of an expression's text, with the NUL */
};

typedef struct tsr_dim_term {
    int64_t factor; /* not 0 */
    uint32_t degree;
    const char *atoms[TSR_DIM_DEGREE_MAX]; /* ascending; NUL-terminated, in an arena */
} tsr_dim_term;

/* No terms: the number 0. */
typedef struct tsr_dim_expression {
    uint32_t count;
    tsr_dim_term terms[TSR_DIM_TERMS_MAX];
} tsr_dim_expression;

typedef struct tsr_dim_error {
    const char *text; /* static */
    size_t at;        /* the byte at which the text is wrong */
} tsr_dim_error;

/* Reads an expression; atoms are put in the arena. The text need not end with a NUL. */
bool tsr_dim_expression_parse(tsr_arena *arena, const char *text, size_t size_bytes,
                              tsr_dim_expression *out_expression, tsr_dim_error *out_error);
/* Writes the canonical text; false if it is too long. */
bool tsr_dim_expression_print(const tsr_dim_expression *expression,
                              char out_text[TSR_DIM_TEXT_MAX]);
bool tsr_dim_is_symbol(const char *text, size_t size_bytes);

/* ---- arithmetic: false if the result exceeds a limit or 64 bits; `out` may be an operand ------
 */

tsr_dim_expression tsr_dim_expression_number(int64_t value);
bool tsr_dim_expression_is_number(const tsr_dim_expression *expression, int64_t *out_value);
bool tsr_dim_expression_add(const tsr_dim_expression *a, const tsr_dim_expression *b,
                            tsr_dim_expression *out);
bool tsr_dim_expression_subtract(const tsr_dim_expression *a, const tsr_dim_expression *b,
                                 tsr_dim_expression *out);
bool tsr_dim_expression_multiply(const tsr_dim_expression *a, const tsr_dim_expression *b,
                                 tsr_dim_expression *out);
/* The polynomial whose product with b is a; false, too, if there is none. */
bool tsr_dim_expression_divide(const tsr_dim_expression *a, const tsr_dim_expression *b,
                               tsr_dim_expression *out);
/* floor(a / b). False, too, if b is a number below 1. */
bool tsr_dim_expression_floor(tsr_arena *arena, const tsr_dim_expression *a,
                              const tsr_dim_expression *b, tsr_dim_expression *out);
bool tsr_dim_expression_min(tsr_arena *arena, const tsr_dim_expression *a,
                            const tsr_dim_expression *b, tsr_dim_expression *out);
bool tsr_dim_expression_max(tsr_arena *arena, const tsr_dim_expression *a,
                            const tsr_dim_expression *b, tsr_dim_expression *out);

/* ---- values ---------------------------------------------------------------------------------- */

/* INT64_MIN and INT64_MAX: no bound. */
typedef struct tsr_dim_range {
    int64_t low, high;
} tsr_dim_range;

typedef tsr_dim_range (*tsr_dim_range_of)(void *user, const char *symbol);

/* A range that contains every value of the expression. If every symbol has one value, the range is
 * the value of the expression; it has no bound if the value does not exist in 64 bits. */
tsr_dim_range tsr_dim_expression_range(const tsr_dim_expression *expression,
                                       tsr_dim_range_of range_of, void *user);
/* Calls `each` for every symbol, as often as it occurs. False: no memory. */
bool tsr_dim_expression_symbols(const tsr_dim_expression *expression,
                                void (*each)(void *user, const char *symbol), void *user);

#endif
