/* SPDX-License-Identifier: Apache-2.0
 *
 * How code records what it does: time spans on tracks and values over time. The record itself, and
 * how a program asks for it, is tessera/trace.h.
 *
 * Any thread may record. Without a trace, each span costs one pointer test. Texts are borrowed
 * until the trace is written. Times are read from CLOCK_MONOTONIC, in nanoseconds.
 */
#ifndef TSR_BASE_TRACE_H
#define TSR_BASE_TRACE_H

#include "runtime/base/result.h"
#include "tessera/trace.h"

enum { TSR_TRACE_EVENTS_MAX = 1 << 17 }; /* default number of recorded events */

typedef enum tsr_track {
#define X(ID, group, name) TSR_TRACK_##ID,
#include "runtime/base/trace/trace_tracks.def"
#undef X
    TSR_TRACK_COUNT
} tsr_track;

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

#endif
