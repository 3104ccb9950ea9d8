/* SPDX-License-Identifier: Apache-2.0
 *
 * What a metrics file says, as series of points and a list of events. A file may hold several runs,
 * one after the other: a run that resumes repeats the steps since the last save, and its points
 * replace those of the earlier run: from the step where a run begins, no series keeps older points.
 *
 *     tsr_history history;
 *     TRY(ctx, tsr_history_read(ctx, "metrics.jsonl", &history));
 *     ...
 *     tsr_history_finish(&history);
 */
#ifndef TSR_TOOLS_RUN_PLOT_HISTORY_H
#define TSR_TOOLS_RUN_PLOT_HISTORY_H

#include "runtime/base/arena.h"

typedef struct tsr_point {
    uint64_t step;
    double value; /* NaN: the line has none, or one that was not finite */
} tsr_point;

typedef enum tsr_series_kind {
    TSR_SERIES_TRAIN, /* an output of steps */
    TSR_SERIES_EVAL,  /* a mean of evaluations */
    TSR_SERIES_LR,    /* a learning rate of steps */
    TSR_SERIES_RATE,  /* samples per second between two lines of one run */
} tsr_series_kind;

typedef struct tsr_series {
    tsr_series_kind kind;
    const char *name; /* in the arena */
    tsr_point *points;
    size_t count, capacity; /* count 0: a later run has dropped all its points */
} tsr_series;

/* A save, a resume, a better evaluation, a summary. */
typedef struct tsr_history_event {
    const char *what; /* "save" */
    uint64_t step;
    const char *text; /* the other members, "generation 3, state 9ab…"; in the arena */
} tsr_history_event;

typedef struct tsr_history {
    tsr_arena arena;
    tsr_series *series; /* in the order in which they appear; in the arena, like events */
    size_t series_count, series_capacity;
    tsr_history_event *events;
    size_t event_count, event_capacity;
    uint64_t line_count, run_count, last_step, nonfinite_count;
    uint64_t unusable_count; /* lines that are not events */
    bool torn;               /* the last line is unfinished */
    const char *left_out;    /* the first series beyond TSR_HISTORY_SERIES_MAX; NULL: none */
} tsr_history;

enum { TSR_HISTORY_BYTES_MAX = 1 << 30, TSR_HISTORY_SERIES_MAX = 256 };

/* An empty file is a history without points. Lines that are no JSON objects with an event are
 * counted; TSR_DATA if a file has lines and none of them is one. Series beyond
 * TSR_HISTORY_SERIES_MAX are left out. TSR_IO. */
TSR_RESULT tsr_history_read(tsr_ctx *ctx, const char *path, tsr_history *out_history);
void tsr_history_finish(tsr_history *history);

#endif
