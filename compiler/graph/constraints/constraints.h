/* SPDX-License-Identifier: Apache-2.0
 *
 * Constraints on dims, such as "D % 8 == 0", and what follows from them.
 *
 *     constraint   expression "%" integer "==" integer
 *                  | expression ("==" | "!=" | "<" | "<=" | ">" | ">=") expression
 *                  | expression "in" integer ".." ["="] integer
 *
 * Expressions are those of dim_expression.h without floor, min and max. Symbols are at least 1.
 */
#ifndef TSR_COMPILER_GRAPH_CONSTRAINTS_H
#define TSR_COMPILER_GRAPH_CONSTRAINTS_H

#include "compiler/ir/dim_expression.h"

enum { TSR_CONSTRAINTS_MAX = 4096, TSR_CONSTRAINT_PARTS = 2 };

typedef struct tsr_constraint_term {
    int64_t factor;
    uint32_t degree, symbols[TSR_DIM_DEGREE_MAX]; /* numbers of symbols, ascending */
} tsr_constraint_term;

/* sum of terms: == 0, != 0, >= 0, or congruent to `residue` modulo `modulus` */
typedef struct tsr_constraint_part {
    enum { TSR_PART_ZERO, TSR_PART_NOT_ZERO, TSR_PART_NOT_NEGATIVE, TSR_PART_MODULO } kind;
    int64_t modulus, residue;
    uint32_t count;
    tsr_constraint_term terms[TSR_DIM_TERMS_MAX];
} tsr_constraint_part;

typedef struct tsr_constraint {
    const char *text; /* in the arena */
    uint32_t part_count;
    tsr_constraint_part parts[TSR_CONSTRAINT_PARTS]; /* all hold */
} tsr_constraint;

/* What is known of a symbol: low <= x <= high, x congruent to residue modulo modulus. */
typedef struct tsr_domain {
    int64_t low, high; /* TSR_DOMAIN_END: no bound */
    int64_t modulus, residue;
} tsr_domain;
#define TSR_DOMAIN_END (INT64_C(1) << 62)

typedef struct tsr_constraints {
    tsr_arena *arena; /* borrowed */
    const char **symbols;
    uint32_t symbol_count;
    tsr_constraint *list;
    uint32_t count;
    size_t symbol_capacity, capacity;
} tsr_constraints;

/* The number of a symbol, which is added if it is new; UINT32_MAX: no memory. */
uint32_t tsr_constraints_symbol(tsr_constraints *set, const char *name, size_t size_bytes);
/* Adds a constraint; false if the text is not a constraint: *out_error says why, and where. */
bool tsr_constraints_add(tsr_constraints *set, const char *text, tsr_dim_error *out_error);

/* Narrows `domains`, one for each symbol, by the constraints; `skipped` may be NULL, or says which
 * constraints are left out. False if no sizes satisfy all: *out_broken is a constraint that cannot
 * hold. True does not say that there are such sizes. */
bool tsr_constraints_narrow(const tsr_constraints *set, const bool *skipped, tsr_domain *domains,
                            uint32_t *out_broken);
/* Constraints that contradict each other in these domains, and would not without any one; sorted.
 * `out_list` has room for all; returns how many. Requires that tsr_constraints_narrow fails. */
uint32_t tsr_constraints_conflict(const tsr_constraints *set, const tsr_domain *domains,
                                  uint32_t *out_list);

typedef enum tsr_verdict { TSR_PROVED, TSR_REFUTED, TSR_OPEN } tsr_verdict;
/* For all sizes in the domains, for none, or not known. */
tsr_verdict tsr_constraint_decide(const tsr_constraint *constraint, const tsr_domain *domains);
tsr_domain tsr_domain_any(void);
tsr_domain tsr_domain_of(int64_t low, int64_t high);

#endif
