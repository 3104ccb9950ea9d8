/* SPDX-License-Identifier: Apache-2.0
 *
 * --trace and --roofline: what a run did and when, in files.
 */
#ifndef TSR_TOOLS_RUN_TRACE_H
#define TSR_TOOLS_RUN_TRACE_H

#include "loader/tessera.h"

typedef struct tsr_run_trace {
    const char *trace, *roofline; /* files; NULL: not asked for */
    const char *steps;            /* "A:B"; NULL: the default */
} tsr_run_trace;

/* Puts a trace into the context where one is asked for, or where a profiler wants ranges. rank: 0
 * of a process alone. TSR_USAGE for steps that are no range, or without a file;
 * TSR_IO for a file that cannot be written. */
TSR_RESULT tsr_run_trace_begin(tsr_ctx *ctx, const tsr_run_trace *options, uint32_t rank);
/* Writes the files: of each of several ranks its own, "t.json" as "t.rank1.json". Before the model,
 * which may be NULL, is closed. */
TSR_RESULT tsr_run_trace_write(tsr_ctx *ctx, const tsr_run_trace *options, tsr_model *model,
                               const tsr_transport *transport);
/* Takes the trace out of the context. */
void tsr_run_trace_end(tsr_ctx *ctx);

#endif
