/* SPDX-License-Identifier: Apache-2.0
 *
 * How an op runs on the rows of one virtual rank: what its results are, given what its operands
 * are.
 *
 * A value is whole (the same on every virtual rank), split along a dim (a virtual rank has one of V
 * equal, adjacent parts of it), or partial (a virtual rank has a summand). The method is that of
 * sharding propagation (Xu et al., "GSPMD", 2021, section 3), without search: an op for which there
 * is no rule reads whole operands.
 */
#ifndef TSR_COMPILER_RESILIENCE_SPLIT_RULES_H
#define TSR_COMPILER_RESILIENCE_SPLIT_RULES_H

#include "compiler/graph/rule.h"

enum {
    TSR_SPLIT_WHOLE = -1, /* or the dim that is split */
    TSR_SPLIT_PARTIAL = -2,
    TSR_SPLIT_OWN = -3, /* a virtual rank's part of a tensor; no rule sees one */
    TSR_SPLIT_PARTS_MAX = 4096,
};

typedef struct tsr_split {
    MlirOperation op;
    uint64_t parts; /* V */
    size_t operand_count, result_count;
    tsr_type operand_types[TSR_RULE_OPERANDS_MAX], result_types[TSR_RULE_RESULTS_MAX]; /* whole */
    int operands[TSR_RULE_OPERANDS_MAX]; /* in: what they are; out: what the op wants */
    int results[TSR_RULE_RESULTS_MAX];   /* out */
} tsr_split;

/* At least one operand is not whole. False: the op has to see whole operands. */
bool tsr_split_find(tsr_split *s);

#endif
