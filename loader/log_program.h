/* SPDX-License-Identifier: Apache-2.0
 *
 * Which program a log of a run or of calls is of, and whether a model is that program.
 */
#ifndef TSR_LOADER_LOG_PROGRAM_H
#define TSR_LOADER_LOG_PROGRAM_H

#include "loader/model.h"
#include "runtime/record/record.h"

/* Sets bundle, program, virtual ranks, numerics and entry, which are borrowed from the model. */
void tsr_log_describe(const tsr_model *model, size_t entry, tsr_record_header *out_header);

/* Fails with TSR_MISMATCH, and names both values, if the bits of this entry may differ from those
 * of the log. Programs are compared by their digests if both are known, otherwise by their bundles.
 * A training entry must also have the same hyper-parameters and virtual ranks. `what` is "this run"
 * or "this call". */
TSR_RESULT tsr_log_check(tsr_ctx *ctx, const tsr_model *model, size_t entry,
                         const tsr_record_header *header, const char *what);

#endif
