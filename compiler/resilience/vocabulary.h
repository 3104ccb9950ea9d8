/* SPDX-License-Identifier: Apache-2.0
 *
 * Ops on a table whose rows are split among virtual ranks, such as the vectors of a vocabulary:
 * what each virtual rank computes from its rows.
 */
#ifndef TSR_COMPILER_RESILIENCE_VOCABULARY_H
#define TSR_COMPILER_RESILIENCE_VOCABULARY_H

#include "compiler/graph/emit.h"

/* The rows of a virtual rank: from number `begin` on, i64, of `count` rows of all. */
typedef struct tsr_table_rows {
    MlirValue begin;
    uint64_t count;
} tsr_table_rows;

/* The virtual rank's summand of a gather along dim 0: its rows where they are selected, else 0. An
 * index outside of the table is an error, as in the gather. */
MlirValue tsr_vocabulary_gather(tsr_builder *b, const tsr_table_rows *rows, MlirValue part,
                                MlirValue indices);
/* The virtual rank's rows of a scatter_add of `updates` to zeros along dim 0; `type` is theirs. */
MlirValue tsr_vocabulary_scatter(tsr_builder *b, const tsr_table_rows *rows, MlirValue indices,
                                 MlirValue updates, const tsr_type *type);
/* cross_entropy or cross_entropy_grad in ops that sum and compare classes, so that classes can be
 * split. The operands are those of the op. */
MlirValue tsr_vocabulary_losses(tsr_builder *b, MlirOperation op, const MlirValue *operands);

#endif
