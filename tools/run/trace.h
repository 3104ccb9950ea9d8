/* SPDX-License-Identifier: Apache-2.0
 *
 * --trace and --roofline: what a run did and when, in files.
 */
#ifndef TSR_TOOLS_RUN_TRACE_H
#define TSR_TOOLS_RUN_TRACE_H

#include "loader/tessera.h"
#include "runtime/base/arena.h"

typedef struct tsr_run_trace {
    const char *trace, *roofline; /* files; NULL: not asked for */
    const char *steps;            /* "A:B"; NULL: the default */
} tsr_run_trace;

/* The steps that are named; zeros for the default. TSR_USAGE for what is no range, or without a
 * file. */
TSR_RESULT tsr_run_trace_parse(tsr_ctx *ctx, const tsr_run_trace *options, uint64_t *out_first,
                               uint64_t *out_last);
/* Where one of several ranks writes its file: "t.json" of rank 2 is "t.rank2.json"; NULL of NULL.
 * In the arena; NULL for want of memory. */
const char *tsr_run_trace_path(const char *path, uint32_t rank, tsr_arena *arena);
/* Puts a trace into the context where one is asked for, or where a profiler wants ranges. rank: 0
 * of a process alone. TSR_USAGE as above; TSR_IO for a file that cannot be written. */
TSR_RESULT tsr_run_trace_begin(tsr_ctx *ctx, const tsr_run_trace *options, uint32_t rank);
/* Writes the files. Before the model, which may be NULL, is closed. */
TSR_RESULT tsr_run_trace_write(tsr_ctx *ctx, const tsr_run_trace *options, tsr_model *model,
                               const tsr_transport *transport);
/* Takes the trace out of the context. */
void tsr_run_trace_end(tsr_ctx *ctx);

#endif
