/* SPDX-License-Identifier: Apache-2.0
 *
 * What a row rule of ops.def gets and gives: where the rows of an entry lie in the operands of an
 * op, and where they lie in its results. The rules of ops without regions are in row_rules.c, those
 * of ops with regions in row_control.c; prove_rows.c walks the entries.
 */
#ifndef TSR_COMPILER_GRAPH_ROW_FLOW_H
#define TSR_COMPILER_GRAPH_ROW_FLOW_H

#include "compiler/graph/row_layout.h"
#include "compiler/graph/rule.h"

/* In this order: what joins values takes the highest. */
typedef enum tsr_row_kind {
    TSR_ROWS_UNKNOWN, /* not scanned yet */
    TSR_ROWS_FREE,    /* hangs on no row */
    TSR_ROWS_APART,   /* each element hangs on one row, which the layout's digits name */
    TSR_ROWS_MIXED,   /* elements may hang on several rows, or on a row's number */
} tsr_row_kind;

typedef struct tsr_row_value {
    tsr_row_kind kind;
    tsr_row_layout layout; /* of FREE and APART */
    MlirValue from;        /* the operand or yielded value that its kind comes from, or null */
    const char *reason;    /* MIXED by this very op: how; else NULL. In the walk's arena. */
    bool by_number;        /* then: rows meet what differs from row to row by itself */
    bool is_sum;           /* MIXED, but a sum over all rows of what hangs on one row each */
} tsr_row_value;

typedef struct tsr_row_walk tsr_row_walk;

typedef struct tsr_row_flow {
    tsr_row_walk *walk;
    MlirOperation op;
    size_t operand_count, result_count;
    tsr_type types[TSR_RULE_OPERANDS_MAX]; /* of operands; static */
    tsr_type result_types[TSR_RULE_RESULTS_MAX];
    tsr_row_value operands[TSR_RULE_OPERANDS_MAX]; /* `from` is the operand; no reason */
    tsr_row_layout results[TSR_RULE_RESULTS_MAX];  /* out: of rules of ops without regions */
    tsr_row_value outcomes[TSR_RULE_RESULTS_MAX];  /* out: of rules of ops with regions */
    char reason[256];                              /* out: on false */
    size_t culprit;                                /* the operand that the reason is about */
    bool by_number;
} tsr_row_flow;

/* Operands are FREE or APART. Says how the results lie; returns false by tsr_row_mix() where the op
 * mixes rows. Where all operands are FREE, no digits are met, and only layouts matter. */
typedef bool (*tsr_rows_fn)(tsr_row_flow *flow);
#define X(ID, mnemonic, Class, KIND, check, gradient, forward, lowering, rows)                     \
    bool tsr_rows_##rows(tsr_row_flow *flow);
#include "compiler/graph/ops.def"
#undef X
/* Of ops of other dialects. */
bool tsr_rows_of_other(tsr_row_flow *flow);
tsr_rows_fn tsr_graph_rows(tsr_graph_op op);
/* Does the op, which mixes rows, add up all of them? Is its result a sum over all rows of what
 * hangs on one row each, where some operands are (and all that are MIXED)? */
bool tsr_row_sums_all(const tsr_row_flow *flow);
bool tsr_row_keeps_sum(const tsr_row_flow *flow);
/* Does the rule give outcomes, whatever the operands are? */
bool tsr_row_rule_has_regions(tsr_rows_fn rule);

/* Sets the reason, which follows the op's name: "sums over dim 0, which holds the rows". */
bool tsr_row_mix(tsr_row_flow *flow, size_t operand, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* For a fault of joining operands. */
bool tsr_row_mix_joined(tsr_row_flow *flow, size_t operand, tsr_row_fault fault);

/* ---- for ops with regions: prove_rows.c ------------------------------------------------------ */

/* A region's value as it is now. */
tsr_row_value tsr_row_get(tsr_row_walk *walk, MlirValue value);
/* Raises a value: its kind never falls, and where its rows come from stays while it is of one kind.
 * True where it changed. */
bool tsr_row_raise(tsr_row_walk *walk, MlirValue value, const tsr_row_value *to);
/* Walks the ops of a region, whose arguments are set; gives its terminator. */
MlirOperation tsr_row_walk_region(tsr_row_walk *walk, MlirOperation op, intptr_t index);
/* Values of one type at the same places. `from` of the result is that of the one its kind comes
 * from; where they do not fit, the reason is the flow's op. */
tsr_row_value tsr_row_join_values(tsr_row_flow *flow, const tsr_row_value *a,
                                  const tsr_row_value *b);
/* MIXED by the flow's op. */
tsr_row_value tsr_row_mixed(tsr_row_flow *flow, MlirValue culprit, const char *reason);

typedef struct tsr_row_scope {
    uint64_t rows; /* whose digits values have; fewer than the entry's in scans along rows */
    bool by_row;   /* in a scan along rows: what hangs on the iteration hangs on the row's number */
    bool derived;  /* in a derivative: rules of custom_derivative count */
} tsr_row_scope;
tsr_row_scope *tsr_row_get_scope(tsr_row_walk *walk);

#endif
