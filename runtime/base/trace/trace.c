/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/trace/trace.h"

#include "runtime/base/arena.h"
#include "runtime/base/array.h"
#include "runtime/base/buffer.h"
#include "runtime/base/clock.h"
#include "runtime/base/io/io.h"
#include "runtime/base/options.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

/* A span, or a value that is valid from a time on. */
typedef struct event {
    const char *name;
    uint64_t begin_ns, end_ns, value; /* end 0: a value */
    tsr_trace_detail detail;
    uint32_t track;
    atomic_bool whole;
} event;

enum { GROUP_STEP, GROUP_SAVE, GROUP_COUNT };
static const struct {
    const char *name;
    int group;
} tracks[] = {
#define X(ID, group, name) [TSR_TRACK_##ID] = {name, GROUP_##group},
#include "runtime/base/trace/trace_tracks.def"
#undef X
};
static_assert(TSR_COUNT(tracks) == TSR_TRACK_COUNT, "one row each");

struct tsr_trace {
    tsr_trace_options options;
    atomic_bool records[GROUP_COUNT];
    atomic_uint_least64_t count; /* number of all events; at most events_max are kept */
    event *events;               /* owned */
};

uint64_t tsr_trace_now_(void) { return tsr_clock_ns(); }

tsr_result tsr_trace_create(tsr_ctx *ctx, const tsr_trace_options *options, tsr_trace **out_trace) {
    tsr_trace_options given;
    TRY(ctx, tsr_options_copy(ctx, "tsr_trace_options", options, &given, sizeof given));
    if (given.last_step < given.first_step)
        FAIL(ctx, TSR_USAGE, "the last step of the trace is %" PRIu64 "; the first one is %" PRIu64,
             given.last_step, given.first_step);
    if (given.ranges_only) given.events_max = 1;
    if (!given.events_max) given.events_max = TSR_TRACE_EVENTS_MAX;
    tsr_trace *trace = calloc(1, sizeof *trace);
    event *events = calloc(given.events_max, sizeof *events);
    if (!trace || !events) {
        free(trace);
        free(events);
        FAIL(ctx, TSR_MEMORY, "no memory for a trace of %" PRIu32 " events", given.events_max);
    }
    trace->options = given;
    trace->events = events;
    for (int i = 0; i < GROUP_COUNT; i++) atomic_init(&trace->records[i], !given.ranges_only);
    *out_trace = trace;
    return TSR_SUCCESS;
}

void tsr_trace_destroy(tsr_trace *trace) {
    if (!trace) return;
    free(trace->events);
    free(trace);
}

void tsr_trace_step(tsr_trace *trace, uint64_t step) {
    if (!trace || trace->options.ranges_only) return;
    tsr_trace_options *o = &trace->options;
    if (!o->last_step) {
        o->first_step = step;
        o->last_step = step + TSR_TRACE_STEPS - 1;
    }
    atomic_store(&trace->records[GROUP_STEP], step >= o->first_step && step <= o->last_step);
}

void tsr_trace_save(tsr_trace *trace) {
    if (trace) atomic_store(&trace->records[GROUP_SAVE], atomic_load(&trace->records[GROUP_STEP]));
}

bool tsr_trace_records_(const tsr_trace *trace, tsr_track track) {
    return atomic_load_explicit(&trace->records[tracks[track].group], memory_order_relaxed);
}

/* Events outside the recorded steps or beyond the capacity are only counted. */
static void add(tsr_trace *trace, const event *added) {
    uint64_t index = atomic_fetch_add(&trace->count, 1);
    if (index >= trace->options.events_max) return;
    event *to = &trace->events[index];
    to->name = added->name;
    to->begin_ns = added->begin_ns;
    to->end_ns = added->end_ns;
    to->value = added->value;
    to->detail = added->detail;
    to->track = added->track;
    atomic_store_explicit(&to->whole, true, memory_order_release);
}

void tsr_trace_span_(tsr_trace *trace, tsr_track track, const char *name, uint64_t begin_ns,
                     uint64_t end_ns, tsr_trace_detail detail) {
    if (end_ns < begin_ns) end_ns = begin_ns;
    add(trace, &(event){.name = name,
                        .begin_ns = begin_ns,
                        .end_ns = end_ns,
                        .detail = detail,
                        .track = track});
}

void tsr_trace_value(tsr_trace *trace, const char *name, uint64_t time_ns, uint64_t value) {
    if (trace && time_ns) add(trace, &(event){.name = name, .begin_ns = time_ns, .value = value});
}

void tsr_trace_push(const tsr_trace *trace, const char *name, uint64_t number) {
    char text[256];
    if (!trace || !trace->options.ranges) return;
    if (number) {
        snprintf(text, sizeof text, "%s %" PRIu64, name, number);
        name = text;
    }
    trace->options.ranges->push(name);
}

void tsr_trace_pop(const tsr_trace *trace) {
    if (trace && trace->options.ranges) trace->options.ranges->pop();
}

/* ---- the file: one event per line ---- */

/* Orders by time; of events that begin together, the longer one comes first, since it contains the
 * other. */
static int by_time(const void *a, const void *b) {
    const event *x = *(const event *const *)a, *y = *(const event *const *)b;
    if (x->begin_ns != y->begin_ns) return x->begin_ns < y->begin_ns ? -1 : 1;
    if (x->end_ns != y->end_ns) return x->end_ns > y->end_ns ? -1 : 1;
    return (x > y) - (x < y);
}

/* Writes microseconds, from a clock that all ranks of a host share. */
static void write_time(tsr_buffer *out, const char *key, uint64_t ns) {
    tsr_buffer_printf(out, ",\"%s\":%" PRIu64 ".%03u", key, ns / 1000, (unsigned)(ns % 1000));
}

static void write_name(tsr_buffer *out, const event *e) {
    tsr_buffer_json_string(out, e->name);
    if (!e->detail.number) return;
    out->size_bytes--; /* removes the quote */
    tsr_buffer_printf(out, " %" PRIu64 "\"", e->detail.number);
}

static void write_event(tsr_buffer *out, const tsr_trace *trace, const event *e) {
    tsr_buffer_text(out, ",\n{\"name\":");
    write_name(out, e);
    tsr_buffer_printf(out, ",\"ph\":\"%s\",\"pid\":%" PRIu32 ",\"tid\":%" PRIu32,
                      e->end_ns ? "X" : "C", trace->options.rank, e->end_ns ? e->track + 1 : 0);
    write_time(out, "ts", e->begin_ns);
    if (!e->end_ns) {
        tsr_buffer_printf(out, ",\"args\":{\"bytes\":%" PRIu64 "}}", e->value);
        return;
    }
    write_time(out, "dur", e->end_ns - e->begin_ns);
    const tsr_trace_detail *detail = &e->detail;
    bool located = detail->location && detail->location[0];
    if (located || detail->bytes) {
        tsr_buffer_text(out, ",\"args\":{");
        if (located) {
            tsr_buffer_text(out, "\"location\":");
            tsr_buffer_json_string(out, detail->location);
        }
        if (detail->bytes)
            tsr_buffer_printf(out, "%s\"bytes\":%" PRIu64, located ? "," : "", detail->bytes);
        tsr_buffer_text(out, "}");
    }
    tsr_buffer_text(out, "}");
}

static void write_head(tsr_buffer *out, const tsr_trace *trace, uint64_t dropped) {
    const tsr_trace_options *o = &trace->options;
    tsr_buffer_printf(out,
                      "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"rank\":%" PRIu32
                      ",\"firstStep\":%" PRIu64 ",\"lastStep\":%" PRIu64 ",\"dropped\":%" PRIu64
                      "},\n\"traceEvents\":[\n",
                      o->rank, o->first_step, o->last_step, dropped);
    tsr_buffer_printf(out,
                      "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%" PRIu32
                      ",\"tid\":0,\"args\":{\"name\":\"rank %" PRIu32 "\"}}",
                      o->rank, o->rank);
    for (uint32_t i = 0; i < TSR_TRACK_COUNT; i++) {
        tsr_buffer_printf(out,
                          ",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%" PRIu32
                          ",\"tid\":%" PRIu32 ",\"args\":{\"name\":\"%s\"}}",
                          o->rank, i + 1, tracks[i].name);
        tsr_buffer_printf(out,
                          ",\n{\"name\":\"thread_sort_index\",\"ph\":\"M\",\"pid\":%" PRIu32
                          ",\"tid\":%" PRIu32 ",\"args\":{\"sort_index\":%" PRIu32 "}}",
                          o->rank, i + 1, i);
    }
}

static tsr_result format(tsr_ctx *ctx, const tsr_trace *trace, tsr_buffer *out) {
    uint64_t count = atomic_load(&trace->count), sorted_count = 0, dropped = 0;
    if (count > trace->options.events_max) {
        dropped = count - trace->options.events_max;
        count = trace->options.events_max;
    }
    const event **sorted = calloc(count + 1, sizeof *sorted);
    if (!sorted) FAIL(ctx, TSR_MEMORY, "no memory for %" PRIu64 " events of a trace", count);
    for (uint64_t i = 0; i < count; i++)
        if (atomic_load_explicit(&trace->events[i].whole, memory_order_acquire))
            sorted[sorted_count++] = &trace->events[i];
    qsort(sorted, sorted_count, sizeof *sorted, by_time);
    write_head(out, trace, dropped);
    for (uint64_t i = 0; i < sorted_count; i++) write_event(out, trace, sorted[i]);
    tsr_buffer_text(out, "\n]}\n");
    free(sorted);
    if (out->failed)
        FAIL(ctx, TSR_MEMORY, "no memory to write %" PRIu64 " events of a trace", sorted_count);
    return TSR_SUCCESS;
}

tsr_result tsr_trace_write(tsr_ctx *ctx, const tsr_trace *trace, const char *path) {
    tsr_buffer out = {0};
    tsr_result result = format(ctx, trace, &out);
    if (!result.code) result = tsr_io_atomic_write(ctx, path, out.bytes, out.size_bytes);
    tsr_buffer_finish(&out);
    return result;
}
