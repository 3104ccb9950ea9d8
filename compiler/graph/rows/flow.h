/* SPDX-License-Identifier: Apache-2.0
 *
 * The interface of the row rules of ops.def: from the layout of an entry's rows in the operands of
 * an op, they derive the layout in its results. The rules of ops without regions are in
 * row_rules.c, those of ops with regions in row_control.c; prove_rows.c walks the entries.
 */
#ifndef TSR_COMPILER_GRAPH_ROWS_FLOW_H
#define TSR_COMPILER_GRAPH_ROWS_FLOW_H

#include "compiler/graph/rows/layout.h"
#include "compiler/graph/rule.h"

/* Ordered: joining values takes the highest kind. */
typedef enum tsr_row_kind {
    TSR_ROWS_UNKNOWN, /* not scanned yet */
    TSR_ROWS_FREE,    /* depends on no row */
    TSR_ROWS_APART,   /* each element depends on one row, which the layout's digits name */
    TSR_ROWS_MIXED,   /* elements may depend on several rows, or on a row's number */
} tsr_row_kind;

typedef struct tsr_row_value {
    tsr_row_kind kind;
    tsr_row_layout layout; /* FREE and APART only */
    MlirValue from;        /* the operand or yielded value that determines its kind, or null */
    const char *reason; /* MIXED by this op itself: the reason; else NULL. In the walk's arena. */
    bool by_number;     /* reason: rows are combined with values that differ from row to row */
    bool is_sum;        /* MIXED, but a sum over all rows, with each term depending on one row */
} tsr_row_value;

typedef struct tsr_row_walk tsr_row_walk;

typedef struct tsr_row_flow {
    tsr_row_walk *walk;
    MlirOperation op;
    size_t operand_count, result_count;
    tsr_type types[TSR_RULE_OPERANDS_MAX]; /* operand types; static */
    tsr_type result_types[TSR_RULE_RESULTS_MAX];
    tsr_row_value operands[TSR_RULE_OPERANDS_MAX]; /* `from` is the operand; no reason */
    tsr_row_layout results[TSR_RULE_RESULTS_MAX];  /* out: for rules of ops without regions */
    tsr_row_value outcomes[TSR_RULE_RESULTS_MAX];  /* out: for rules of ops with regions */
    char reason[256];                              /* out: set on false */
    size_t culprit;                                /* the operand that the reason is about */
    bool by_number;
} tsr_row_flow;

/* The operands are FREE or APART. The rule sets the layout of the results, or calls tsr_row_mix()
 * and returns false if the op mixes rows. If all operands are FREE, there are no digits, and only
 * layouts matter. */
typedef bool (*tsr_rows_fn)(tsr_row_flow *flow);
#define X(ID, mnemonic, Class, KIND, check, gradient, forward, lowering, rows, dims)               \
    bool tsr_rows_##rows(tsr_row_flow *flow);
#include "compiler/graph/ops.def"
#undef X
/* The rule for ops of other dialects. */
bool tsr_rows_of_other(tsr_row_flow *flow);
tsr_rows_fn tsr_graph_rows(tsr_op op);
/* For an op that mixes rows: whether it sums all rows, and whether its result is a sum over all
 * rows, with each term depending on one row, because some operands are (including all that are
 * MIXED). */
bool tsr_row_sums_all(const tsr_row_flow *flow);
bool tsr_row_preserves_sum(const tsr_row_flow *flow);
/* True if the rule sets outcomes, for operands of any kind. */
bool tsr_row_rule_has_regions(tsr_rows_fn rule);

/* Sets the reason, which follows the op's name: "sums over dim 0, which holds the rows". */
bool tsr_row_mix(tsr_row_flow *flow, size_t operand, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* For a failed join of operands. */
bool tsr_row_mix_joined(tsr_row_flow *flow, size_t operand, tsr_row_fault fault);

/* ---- for ops with regions: prove_rows.c ------------------------------------------------------ */

/* The present value of a region's value. */
tsr_row_value tsr_row_get(tsr_row_walk *walk, MlirValue value);
/* Raises a value: its kind never falls, and the origin of its rows stays as long as the kind does
 * not change. True if the value changed. */
bool tsr_row_raise(tsr_row_walk *walk, MlirValue value, const tsr_row_value *to);
/* Walks the ops of a region, whose arguments are set; returns its terminator. */
MlirOperation tsr_row_walk_region(tsr_row_walk *walk, MlirOperation op, intptr_t index);
/* Joins values of one type elementwise. The result's `from` is that of the value that determines
 * its kind; if the values do not fit, the flow's op is the reason. */
tsr_row_value tsr_row_join_values(tsr_row_flow *flow, const tsr_row_value *a,
                                  const tsr_row_value *b);
/* MIXED by the flow's op. */
tsr_row_value tsr_row_mixed(tsr_row_flow *flow, MlirValue culprit, const char *reason);

typedef struct tsr_row_scope {
    uint64_t rows; /* number of rows that the digits represent; fewer than the entry's in scans
                    * along rows */
    bool
        by_row; /* in a scan along rows: a dependence on the iteration is one on the row's number */
    bool derived; /* in a derivative: rules of custom_derivative count */
} tsr_row_scope;
tsr_row_scope *tsr_row_get_scope(tsr_row_walk *walk);

#endif
