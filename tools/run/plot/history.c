/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/run/plot/history.h"

#include "runtime/base/array.h"
#include "runtime/base/buffer.h"
#include "runtime/base/io/io.h"
#include "runtime/base/io/json.h"
#include "runtime/base/plural.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { FIRST_ITEMS = 16, TEXT_MAX = 200 };

/* The line before, of the same run; seconds NaN: none. */
typedef struct reader {
    tsr_history *history;
    double seconds;
    uint64_t step;
    bool begun; /* a step of the current run was read */
} reader;

static tsr_result no_memory(tsr_ctx *ctx) { FAIL(ctx, TSR_MEMORY, "no memory for the metrics"); }

/* A number of a line, or NaN. */
static double get_number(const cJSON *object, const char *key) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsNumber(item) ? item->valuedouble : (double)NAN;
}

static bool get_step(const cJSON *object, uint64_t *out_step) {
    double step = get_number(object, "step");
    if (!(step >= 0 && step <= 0x1p53)) return false;
    *out_step = (uint64_t)step;
    return true;
}

/* ---- series ---- */

/* NULL if the history already has as many series as it can have. */
static tsr_result find_series(tsr_ctx *ctx, tsr_history *h, tsr_series_kind kind, const char *name,
                              tsr_series **out_series) {
    for (size_t i = 0; i < h->series_count; i++) {
        if (h->series[i].kind != kind || strcmp(h->series[i].name, name) != 0) continue;
        *out_series = &h->series[i];
        return TSR_SUCCESS;
    }
    *out_series = NULL;
    bool full = h->series_count == TSR_HISTORY_SERIES_MAX;
    if (full && h->left_out) return TSR_SUCCESS;
    const char *copy = tsr_arena_strdup(&h->arena, name);
    if (!copy) return no_memory(ctx);
    if (full) {
        h->left_out = copy;
        return TSR_SUCCESS;
    }
    if (h->series_count == h->series_capacity) {
        tsr_series *grown = TSR_ARENA_GROW(&h->arena, h->series, &h->series_capacity, FIRST_ITEMS);
        if (!grown) return no_memory(ctx);
        h->series = grown;
    }
    *out_series = &h->series[h->series_count++];
    **out_series = (tsr_series){.kind = kind, .name = copy};
    return TSR_SUCCESS;
}

static void cut_series(tsr_history *h, tsr_series *series, uint64_t first_dropped) {
    while (series->count && series->points[series->count - 1].step >= first_dropped)
        h->nonfinite_count -= isfinite(series->points[--series->count].value) ? 0 : 1;
}

/* A run that resumes an older step abandons all later points, also those of evaluations that it
 * does not repeat. */
static void cut_all(tsr_history *h, uint64_t first_dropped) {
    for (size_t i = 0; i < h->series_count; i++) cut_series(h, &h->series[i], first_dropped);
    if (h->last_step >= first_dropped) h->last_step = first_dropped ? first_dropped - 1 : 0;
}

/* A point of a step that the series has already passed replaces it and all later ones. */
static tsr_result add_point(tsr_ctx *ctx, tsr_history *h, tsr_series_kind kind, const char *name,
                            tsr_point point) {
    tsr_series *series = NULL;
    TRY(ctx, find_series(ctx, h, kind, name, &series));
    if (!series) return TSR_SUCCESS;
    cut_series(h, series, point.step);
    if (series->count == series->capacity) {
        tsr_point *grown =
            TSR_ARENA_GROW(&h->arena, series->points, &series->capacity, FIRST_ITEMS);
        if (!grown) return no_memory(ctx);
        series->points = grown;
    }
    series->points[series->count++] = point;
    h->nonfinite_count += isfinite(point.value) ? 0 : 1;
    return TSR_SUCCESS;
}

static tsr_result add_outputs(tsr_ctx *ctx, tsr_history *h, const cJSON *line, uint64_t step,
                              tsr_series_kind kind) {
    const cJSON *outputs = cJSON_GetObjectItemCaseSensitive(line, "outputs"), *item;
    if (!cJSON_IsObject(outputs)) return TSR_SUCCESS;
    cJSON_ArrayForEach(item, outputs) {
        double value = cJSON_IsNumber(item) ? item->valuedouble : (double)NAN;
        TRY(ctx, add_point(ctx, h, kind, item->string, (tsr_point){step, value}));
    }
    return TSR_SUCCESS;
}

/* A program may return its rate as an output of the same name. */
static tsr_result add_rates(tsr_ctx *ctx, tsr_history *h, const cJSON *line, uint64_t step) {
    const cJSON *outputs = cJSON_GetObjectItemCaseSensitive(line, "outputs"), *item;
    const cJSON *rates = cJSON_GetObjectItemCaseSensitive(line, "rates");
    if (!cJSON_IsObject(rates)) return TSR_SUCCESS;
    cJSON_ArrayForEach(item, rates) {
        double value = cJSON_IsNumber(item) ? item->valuedouble : (double)NAN;
        if (cJSON_HasObjectItem(outputs, item->string)) continue;
        TRY(ctx, add_point(ctx, h, TSR_SERIES_LR, item->string, (tsr_point){step, value}));
    }
    return TSR_SUCCESS;
}

/* ---- events ---- */

/* "generation 3, state 9ab…": the members of a line but the two that every line has. */
static const char *describe(tsr_arena *arena, const cJSON *line) {
    const cJSON *item;
    tsr_buffer text = {0};
    cJSON_ArrayForEach(item, line) {
        if (strcmp(item->string, "event") == 0 || strcmp(item->string, "step") == 0) continue;
        if (!cJSON_IsNumber(item) && !cJSON_IsString(item) && !cJSON_IsBool(item)) continue;
        tsr_buffer_printf(&text, "%s%s ", text.size_bytes ? ", " : "", item->string);
        if (cJSON_IsNumber(item))
            tsr_buffer_printf(&text, "%.9g", item->valuedouble);
        else
            tsr_buffer_printf(&text, "%.24s",
                              cJSON_IsString(item) ? item->valuestring
                                                   : (cJSON_IsTrue(item) ? "yes" : "no"));
        if (text.size_bytes > TEXT_MAX) break;
    }
    const char *copy = text.failed ? NULL : tsr_arena_strdup(arena, text.bytes ? text.bytes : "");
    tsr_buffer_finish(&text);
    return copy;
}

static tsr_result add_event(tsr_ctx *ctx, tsr_history *h, const cJSON *line, const char *what,
                            uint64_t step) {
    if (h->event_count == h->event_capacity) {
        tsr_history_event *grown =
            TSR_ARENA_GROW(&h->arena, h->events, &h->event_capacity, FIRST_ITEMS);
        if (!grown) return no_memory(ctx);
        h->events = grown;
    }
    tsr_history_event event = {tsr_arena_strdup(&h->arena, what), step, describe(&h->arena, line)};
    if (!event.what || !event.text) return no_memory(ctx);
    h->events[h->event_count++] = event;
    return TSR_SUCCESS;
}

/* ---- lines ---- */

static tsr_result read_step(tsr_ctx *ctx, reader *r, const cJSON *line, uint64_t step) {
    tsr_history *h = r->history;
    double seconds = get_number(line, "seconds"), samples = get_number(line, "samples");
    bool begins = !r->begun || step <= r->step || seconds < r->seconds;
    h->run_count += begins ? 1 : 0;
    if (begins) cut_all(h, step);
    TRY(ctx, add_outputs(ctx, h, line, step, TSR_SERIES_TRAIN));
    TRY(ctx, add_rates(ctx, h, line, step));
    if (!begins && seconds > r->seconds && isfinite(samples)) {
        double rate = samples * (double)(step - r->step) / (seconds - r->seconds);
        TRY(ctx, add_point(ctx, h, TSR_SERIES_RATE, "samples/s", (tsr_point){step, rate}));
    }
    r->begun = true;
    r->step = step;
    r->seconds = seconds;
    h->last_step = step;
    return TSR_SUCCESS;
}

static tsr_result read_line(tsr_ctx *ctx, reader *r, const char *text, size_t size, bool complete) {
    tsr_history *h = r->history;
    const tsr_json_options options = {
        .subject = "metrics", .code = TSR_DATA, .allow_numbers = true};
    tsr_ctx aside = tsr_ctx_fork(ctx);
    cJSON *line = NULL;
    uint64_t step = 0;
    tsr_result result = tsr_json_parse(&aside, text, size, &options, &line);
    if (result.code == TSR_MEMORY) return tsr_error_adopt(ctx, &aside);
    const cJSON *event = line ? cJSON_GetObjectItemCaseSensitive(line, "event") : NULL;
    bool steps = cJSON_IsString(event) && (strcmp(event->valuestring, "step") == 0 ||
                                           strcmp(event->valuestring, "eval") == 0);
    bool has_step = get_step(line, &step), known = cJSON_IsString(event) && (has_step || !steps);
    result = TSR_SUCCESS;
    if (!known && !complete)
        h->torn = true;
    else if (!known)
        h->unusable_count++;
    else if (strcmp(event->valuestring, "step") == 0)
        result = read_step(ctx, r, line, step);
    else if (steps)
        result = add_outputs(ctx, h, line, step, TSR_SERIES_EVAL);
    else {
        bool resumes = strcmp(event->valuestring, "resume") == 0;
        if (resumes) r->begun = false;
        if (resumes && has_step) cut_all(h, step + 1);
        result = add_event(ctx, h, line, event->valuestring, step);
    }
    tsr_json_destroy(line);
    return result;
}

tsr_result tsr_history_read(tsr_ctx *ctx, const char *path, tsr_history *out_history) {
    tsr_history *h = out_history;
    tsr_arena file = {0};
    tsr_result result;
    void *bytes = NULL;
    size_t size = 0;
    *h = (tsr_history){.line_count = 0};
    reader r = {.history = h};
    TRY_GOTO(ctx, result, tsr_io_read_file(ctx, path, TSR_HISTORY_BYTES_MAX, &file, &bytes, &size));
    for (const char *at = bytes, *end = at + size; at < end;) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        size_t length = (size_t)((line_end ? line_end : end) - at);
        h->line_count++;
        TRY_GOTO(ctx, result, read_line(ctx, &r, at, length, line_end != NULL));
        at += length + 1;
    }
    if (h->line_count && h->unusable_count + h->torn == h->line_count)
        FAIL_GOTO(ctx, result, TSR_DATA,
                  "'%s' has %" PRIu64 " line%s, and none is an event of --metrics", path,
                  h->line_count, TSR_PLURAL(h->line_count));
done:
    tsr_arena_finish(&file);
    if (result.code) tsr_history_finish(h);
    return result;
}

void tsr_history_finish(tsr_history *history) {
    tsr_arena_finish(&history->arena);
    *history = (tsr_history){.line_count = 0};
}
