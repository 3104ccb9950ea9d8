/* SPDX-License-Identifier: Apache-2.0
 *
 * What a run did and when: spans of time on tracks and values over time, kept in memory that is
 * taken once, and written as the JSON that trace viewers read (Google, "Trace Event Format").
 *
 *     tsr_trace *trace;
 *     tsr_trace_create(ctx, &options, &trace);
 *     ctx->trace = trace;                  whatever is called with it records
 *     ...
 *     ctx->trace = NULL;
 *     tsr_trace_write(ctx, trace, "t.json");
 *     tsr_trace_destroy(trace);
 *
 * Any thread may record. A run without a trace pays a test of a pointer for each span. Texts are
 * borrowed until the trace is written. Times are of CLOCK_MONOTONIC, in nanoseconds.
 */
#ifndef TSR_BASE_TRACE_H
#define TSR_BASE_TRACE_H

#include "runtime/base/result.h"

enum {
    TSR_TRACE_STEPS = 10, /* of a run that are recorded, unless others are asked for */
    TSR_TRACE_EVENTS_MAX = 1 << 17,
};

typedef enum tsr_track {
#define X(ID, group, name) TSR_TRACK_##ID,
#include "runtime/base/trace_tracks.def"
#undef X
    TSR_TRACK_COUNT
} tsr_track;

typedef struct tsr_trace tsr_trace;

/* Another reader, which is told of ranges as they begin and end, of all steps: a profiler. */
typedef struct tsr_trace_ranges {
    void (*push)(const char *name);
    void (*pop)(void); /* of the range that was begun last by this thread */
} tsr_trace_ranges;

typedef struct tsr_trace_options {
    size_t size_bytes; /* sizeof(tsr_trace_options) */
    /* Steps that are recorded, both included; 0: TSR_TRACE_STEPS from the first one of the run. */
    uint64_t first_step, last_step;
    uint32_t events_max;            /* what comes after is counted only; 0: TSR_TRACE_EVENTS_MAX */
    uint32_t rank;                  /* of several, each of which has a trace of its own */
    const tsr_trace_ranges *ranges; /* borrowed; NULL: none */
    bool ranges_only;               /* nothing is recorded */
} tsr_trace_options;

/* TSR_USAGE for a last step before the first. */
TSR_API TSR_RESULT tsr_trace_create(tsr_ctx *ctx, const tsr_trace_options *options,
                                    tsr_trace **out_trace);
TSR_API void tsr_trace_destroy(tsr_trace *trace); /* accepts NULL */

/* What is known of a span besides; zeros and NULL are left out. */
typedef struct tsr_trace_detail {
    const char *location; /* in the source */
    uint64_t bytes;
    uint64_t number; /* put behind the name: of a step, an attempt */
} tsr_trace_detail;

/* Step `step` is next: from here on what steps do is recorded if that is one of those asked for.
 * Before the first one all is. NULL does nothing, as in the following. */
void tsr_trace_step(tsr_trace *trace, uint64_t step);
/* A save begins, by the thread of the steps: it is recorded to its end if they are now. */
void tsr_trace_save(tsr_trace *trace);
uint64_t tsr_trace_now_(void);
bool tsr_trace_records_(const tsr_trace *trace, tsr_track track);
static inline bool tsr_trace_records(const tsr_trace *trace, tsr_track track) {
    return trace && tsr_trace_records_(trace, track);
}
/* Where a span begins: 0, which tsr_trace_end takes for none, where nothing is recorded. */
static inline uint64_t tsr_trace_begin(const tsr_trace *trace, tsr_track track) {
    return tsr_trace_records(trace, track) ? tsr_trace_now_() : 0;
}
void tsr_trace_span_(tsr_trace *trace, tsr_track track, const char *name, uint64_t begin_ns,
                     uint64_t end_ns, tsr_trace_detail detail);
/* Spans of one track nest or follow each other. */
static inline void tsr_trace_span(tsr_trace *trace, tsr_track track, const char *name,
                                  uint64_t begin_ns, uint64_t end_ns, tsr_trace_detail detail) {
    if (trace && begin_ns) tsr_trace_span_(trace, track, name, begin_ns, end_ns, detail);
}
/* A span until now. */
static inline void tsr_trace_end(tsr_trace *trace, tsr_track track, const char *name,
                                 uint64_t begin_ns) {
    if (trace && begin_ns)
        tsr_trace_span_(trace, track, name, begin_ns, tsr_trace_now_(), (tsr_trace_detail){0});
}
/* A range begins, for the other reader; `number` is put behind the name, where it is not 0. Each is
 * ended by the thread that began it. */
void tsr_trace_push(const tsr_trace *trace, const char *name, uint64_t number);
void tsr_trace_pop(const tsr_trace *trace);
/* From then on `name` is `value`. */
void tsr_trace_value(tsr_trace *trace, const char *name, uint64_t time_ns, uint64_t value);

/* Ordered by time, to a file that appears whole or not at all. No thread records meanwhile. */
TSR_API TSR_RESULT tsr_trace_write(tsr_ctx *ctx, const tsr_trace *trace, const char *path);

#endif
