/* SPDX-License-Identifier: Apache-2.0
 *
 * What a log holds of a step besides the state: the batch as all ranks together have read it, and
 * the result of each sum and gather over the leaves, when it is made; where each rank has a part of
 * one, as of ZeRO stages 2 and 3, rank 0 is given the others'. Both are the same for any number of
 * ranks.
 */
#ifndef TSR_RUNTIME_EVIDENCE_H
#define TSR_RUNTIME_EVIDENCE_H

#include "runtime/exec/executor.h"

typedef struct tsr_evidence tsr_evidence;

/* In the arena; the others are borrowed. Collects from now on until the end. `collects_sums`: has
 * the results, too, as one rank, the first, does; the others give it what they hold of them. */
TSR_RESULT tsr_evidence_begin(tsr_ctx *ctx, tsr_executor *executor, const tsr_config *config,
                              const tsr_program *program, size_t entry, tsr_transport *transport,
                              bool collects_sums, tsr_arena *arena, tsr_evidence **out_evidence);
void tsr_evidence_end(tsr_evidence *evidence); /* accepts NULL */
/* "batch NAME", …, "sum N at FILE:LINE:COLUMN", …; zeros before the first step. */
const tsr_tensor *tsr_evidence_get_tensors(const tsr_evidence *evidence, size_t *out_count);
/* After the leaves' rows were read, on all ranks. */
TSR_RESULT tsr_evidence_take_batch(tsr_ctx *ctx, tsr_evidence *evidence);

#endif
