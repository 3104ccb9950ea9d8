/* SPDX-License-Identifier: Apache-2.0
 *
 * A record of a run: time spans on tracks and values over time. The trace is kept in memory that is
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
 * Any thread may record. Without a trace, each span costs one pointer test. Texts are borrowed
 * until the trace is written. Times are read from CLOCK_MONOTONIC, in nanoseconds.
 */
#ifndef TSR_BASE_TRACE_H
#define TSR_BASE_TRACE_H

#include "runtime/base/result.h"

enum {
    TSR_TRACE_STEPS = 10, /* default number of recorded steps of a run */
    TSR_TRACE_EVENTS_MAX = 1 << 17,
};

typedef enum tsr_track {
#define X(ID, group, name) TSR_TRACK_##ID,
#include "runtime/base/trace/trace_tracks.def"
#undef X
    TSR_TRACK_COUNT
} tsr_track;

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
    uint32_t events_max;            /* later events are only counted; 0: TSR_TRACE_EVENTS_MAX */
    uint32_t rank;                  /* each rank has its own trace */
    const tsr_trace_ranges *ranges; /* borrowed; or NULL */
    bool ranges_only;               /* nothing is recorded */
} tsr_trace_options;

/* TSR_USAGE if the last step is before the first. */
TSR_API TSR_RESULT tsr_trace_create(tsr_ctx *ctx, const tsr_trace_options *options,
                                    tsr_trace **out_trace);
TSR_API void tsr_trace_destroy(tsr_trace *trace); /* accepts NULL */

/* Additional details of a span; zeros and NULL are omitted. */
typedef struct tsr_trace_detail {
    const char *location; /* location in the source */
    uint64_t bytes;
    uint64_t number; /* appended to the name: the number of a step or attempt */
} tsr_trace_detail;

/* Announces step `step`: from now on, events are recorded only if this step is one of the requested
 * steps. Before the first step all events are recorded. NULL does nothing, as in the functions
 * below. */
void tsr_trace_step(tsr_trace *trace, uint64_t step);
/* Called by the training thread when a save begins: the save is recorded to its end if steps are
 * recorded now. */
void tsr_trace_save(tsr_trace *trace);
uint64_t tsr_trace_now_(void);
bool tsr_trace_records_(const tsr_trace *trace, tsr_track track);
static inline bool tsr_trace_records(const tsr_trace *trace, tsr_track track) {
    return trace && tsr_trace_records_(trace, track);
}
/* The begin time of a span; 0 if nothing is recorded, which tsr_trace_end ignores. */
static inline uint64_t tsr_trace_begin(const tsr_trace *trace, tsr_track track) {
    return tsr_trace_records(trace, track) ? tsr_trace_now_() : 0;
}
void tsr_trace_span_(tsr_trace *trace, tsr_track track, const char *name, uint64_t begin_ns,
                     uint64_t end_ns, tsr_trace_detail detail);
/* Spans of one track are nested or disjoint. */
static inline void tsr_trace_span(tsr_trace *trace, tsr_track track, const char *name,
                                  uint64_t begin_ns, uint64_t end_ns, tsr_trace_detail detail) {
    if (trace && begin_ns) tsr_trace_span_(trace, track, name, begin_ns, end_ns, detail);
}
/* Records a span that ends now. */
static inline void tsr_trace_end(tsr_trace *trace, tsr_track track, const char *name,
                                 uint64_t begin_ns) {
    if (trace && begin_ns)
        tsr_trace_span_(trace, track, name, begin_ns, tsr_trace_now_(), (tsr_trace_detail){0});
}
/* Begins a range for the profiler; `number` is appended to the name if it is not 0. Each range is
 * ended by the thread that began it. */
void tsr_trace_push(const tsr_trace *trace, const char *name, uint64_t number);
void tsr_trace_pop(const tsr_trace *trace);
/* Records that `name` has this value from time_ns on. */
void tsr_trace_value(tsr_trace *trace, const char *name, uint64_t time_ns, uint64_t value);

/* Writes the events, ordered by time, to a file that is created atomically. No thread may record
 * during the call. */
TSR_API TSR_RESULT tsr_trace_write(tsr_ctx *ctx, const tsr_trace *trace, const char *path);

#endif
