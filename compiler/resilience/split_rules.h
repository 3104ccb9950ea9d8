/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules for running an op on the rows of one virtual rank: the states of its results, given the
 * states of its operands.
 *
 * A value is whole (the same on every virtual rank), split along a dim (a virtual rank has one of V
 * equal, adjacent parts), or partial (a virtual rank has a summand). The method is that of sharding
 * propagation (Xu et al., "GSPMD", 2021, section 3), without search: an op without a rule reads
 * whole operands.
 */
#ifndef TSR_COMPILER_RESILIENCE_SPLIT_RULES_H
#define TSR_COMPILER_RESILIENCE_SPLIT_RULES_H

#include "compiler/graph/rule.h"

enum {
    TSR_SPLIT_WHOLE = -1, /* other values: the dim that is split */
    TSR_SPLIT_PARTIAL = -2,
    TSR_SPLIT_OWN = -3, /* a virtual rank's part of a tensor; the rules never see this state */
};

typedef struct tsr_split {
    MlirOperation op;
    uint64_t parts; /* V */
    size_t operand_count, result_count;
    tsr_type operand_types[TSR_RULE_OPERANDS_MAX],
        result_types[TSR_RULE_RESULTS_MAX]; /* types of the whole values */
    bool has_layouts;                       /* tensors of the program have declared layouts */
    bool stays[TSR_RULE_OPERANDS_MAX];    /* the operand is a declared tensor, or computed from one
                                             alone */
    int reads[TSR_RULE_OPERANDS_MAX];     /* if it stays: the dim that products read in parts */
    bool scatters[TSR_RULE_OPERANDS_MAX]; /* the operand is a summand of a product with such a
                                             tensor; ranks sum their own rows of it */
    int operands[TSR_RULE_OPERANDS_MAX];  /* in: their states; out: the required states */
    int results[TSR_RULE_RESULTS_MAX];    /* out */
} tsr_split;

/* At least one operand is not whole. False: the op requires whole operands. */
bool tsr_split_find(tsr_split *s);

#endif
