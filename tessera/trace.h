/* SPDX-License-Identifier: Apache-2.0
 *
 * A record of a run: time spans on tracks and values over time. It is kept in memory that is
 * allocated once, and written as JSON for trace viewers (Google, "Trace Event Format").
 *
 *     tsr_trace *trace;
 *     tsr_trace_create(ctx, &options, &trace);
 *     ctx->trace = trace;                  calls with this context record
 *     ...
 *     ctx->trace = NULL;
 *     tsr_trace_write(ctx, trace, "t.json");
 *     tsr_trace_destroy(trace);
 *
 * Any thread may record. Texts are borrowed until the trace is written. Times come from
 * CLOCK_MONOTONIC, in nanoseconds.
 */
#ifndef TSR_TESSERA_TRACE_H
#define TSR_TESSERA_TRACE_H

#include "tessera/result.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { TSR_TRACE_STEPS = 10 }; /* default number of recorded steps of a run */

typedef struct tsr_trace tsr_trace;

/* Another consumer, a profiler, which is notified when ranges begin and end, in all steps. */
typedef struct tsr_trace_ranges {
    void (*push)(const char *name);
    void (*pop)(void); /* ends the range that this thread began last */
} tsr_trace_ranges;

typedef struct tsr_trace_options {
    size_t size_bytes; /* sizeof(tsr_trace_options) */
    /* First and last recorded step; 0: TSR_TRACE_STEPS from the first step of the run. */
    uint64_t first_step, last_step;
    uint32_t events_max;            /* later events are only counted; 0: 131,072 */
    uint32_t rank;                  /* each rank has its own trace */
    const tsr_trace_ranges *ranges; /* borrowed; or NULL */
    bool ranges_only;               /* nothing is recorded */
} tsr_trace_options;

/* TSR_USAGE if the last step is before the first. */
TSR_API TSR_RESULT tsr_trace_create(tsr_ctx *ctx, const tsr_trace_options *options,
                                    tsr_trace **out_trace);
TSR_API void tsr_trace_destroy(tsr_trace *trace); /* accepts NULL */

/* Writes the events, ordered by time, to a file that is created atomically. No thread may record
 * during the call. */
TSR_API TSR_RESULT tsr_trace_write(tsr_ctx *ctx, const tsr_trace *trace, const char *path);

/* Opens the library of a profiler of NVIDIA (NVTX_INJECTION64_PATH names it), once per process; it
 * stays loaded until the process ends. *out_ranges receives the ranges of a trace. TSR_IO for a
 * library that cannot be opened, has no InitializeInjectionNvtx2, or refuses. */
TSR_API TSR_RESULT tsr_nvtx_open(tsr_ctx *ctx, const char *library,
                                 const tsr_trace_ranges **out_ranges);

#ifdef __cplusplus
}
#endif

#endif
