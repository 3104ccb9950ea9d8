/* SPDX-License-Identifier: Apache-2.0
 *
 * The values of a step that a log records in addition to the state: the batch as read by all ranks
 * together, and the result of each sum and gather over the leaves, at the time when it is computed.
 * If each rank has a part of a result, as in ZeRO stages 2 and 3, rank 0 receives the other ranks'
 * parts. Both values are the same for any number of ranks.
 */
#ifndef TSR_RUNTIME_EVIDENCE_H
#define TSR_RUNTIME_EVIDENCE_H

#include "runtime/exec/executor.h"

typedef struct tsr_evidence tsr_evidence;

/* Begins to collect until the end. Allocated in the arena; the other arguments are borrowed.
 * `collects_sums`: also collects the results, which only the first rank does; the other ranks send
 * it their parts. */
TSR_RESULT tsr_evidence_begin(tsr_ctx *ctx, tsr_executor *executor, const tsr_config *config,
                              const tsr_program *program, size_t entry, tsr_transport *transport,
                              bool collects_sums, tsr_arena *arena, tsr_evidence **out_evidence);
void tsr_evidence_end(tsr_evidence *evidence); /* accepts NULL */
/* "batch NAME", …, "sum N at FILE:LINE:COLUMN", …; zeros before the first step. */
const tsr_tensor *tsr_evidence_get_tensors(const tsr_evidence *evidence, size_t *out_count);
/* Called on all ranks after the rows of the leaves were read. */
TSR_RESULT tsr_evidence_take_batch(tsr_ctx *ctx, tsr_evidence *evidence);

#endif
