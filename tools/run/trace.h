/* SPDX-License-Identifier: Apache-2.0
 *
 * --trace and --roofline: write files with the timeline and the kernel performance of a run.
 */
#ifndef TSR_TOOLS_RUN_TRACE_H
#define TSR_TOOLS_RUN_TRACE_H

#include "runtime/base/arena.h"
#include "tessera/tessera.h"

typedef struct tsr_run_trace {
    const char *trace, *roofline; /* paths of files; NULL: not requested */
    const char *steps;            /* "A:B"; NULL: the default */
} tsr_run_trace;

/* Parses the range of steps; zeros for the default. Fails with TSR_USAGE if it is not a range, or
 * without a file. */
TSR_RESULT tsr_run_trace_parse(tsr_ctx *ctx, const tsr_run_trace *options, uint64_t *out_first,
                               uint64_t *out_last);
/* Returns the file name of one of several ranks: "t.json" becomes "t.rank2.json" for rank 2; NULL
 * for NULL. In the arena; NULL if out of memory. */
const char *tsr_run_trace_path(const char *path, uint32_t rank, tsr_arena *arena);
/* Puts a trace into the context if a file is requested, or if a profiler wants ranges. rank: 0 for
 * a single process. Fails with TSR_USAGE as above; TSR_IO for a file that cannot be written. */
TSR_RESULT tsr_run_trace_begin(tsr_ctx *ctx, const tsr_run_trace *options, uint32_t rank);
/* Writes the files. Call it before the model, which may be NULL, is closed. */
TSR_RESULT tsr_run_trace_write(tsr_ctx *ctx, const tsr_run_trace *options, tsr_model *model,
                               const tsr_transport *transport);
/* Removes the trace from the context. */
void tsr_run_trace_end(tsr_ctx *ctx);

#endif
