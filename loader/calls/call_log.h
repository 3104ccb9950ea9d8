/* SPDX-License-Identifier: Apache-2.0
 *
 * Record and replay of calls: a log in the form of runtime/record/record.h with a line for each
 * call.
 */
#ifndef TSR_LOADER_CALLS_CALL_LOG_H
#define TSR_LOADER_CALLS_CALL_LOG_H

#include "loader/model.h"
#include "runtime/data/array_file.h"

typedef struct tsr_call_log tsr_call_log;

/* Creates or reads the log that the options name. `arrays` has an element for each input of the
 * entry: the array it is read from, or NULL. Clears the memory of the entry's inputs and outputs.
 * Fails with TSR_USAGE for options that exclude each other, TSR_MISMATCH for the log of another
 * call. */
TSR_RESULT tsr_call_log_open(tsr_ctx *ctx, tsr_model *model, size_t entry,
                             const tsr_call_options *options, const tsr_array *const *arrays,
                             tsr_call_log **out_log);
/* Call this after call `number`, from 1, while its inputs are still in memory: appends a line, or
 * compares. */
TSR_RESULT tsr_call_log_step(tsr_ctx *ctx, tsr_call_log *log, uint64_t number);
/* Call this after the last call: syncs and closes the written log; fails with TSR_DIVERGED if the
 * replayed log contains more calls. */
TSR_RESULT tsr_call_log_end(tsr_ctx *ctx, tsr_call_log *log, uint64_t count);
void tsr_call_log_close(tsr_call_log *log); /* accepts NULL */

#endif
