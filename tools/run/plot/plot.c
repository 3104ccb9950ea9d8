/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/run/plot/plot.h"

#include "runtime/base/io/io.h"
#include "runtime/base/plural.h"
#include "tools/run/plot/chart.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { CHARTS_MAX = TSR_HISTORY_SERIES_MAX, EVENTS_SHOWN = 1000 };

static const char style[] =
    "text{font:12px system-ui,sans-serif;fill:#333}.title{font-weight:600;font-size:14px}"
    ".grid{stroke:#e3e3e3;fill:none}.frame{fill:none;stroke:#999}.save{stroke:#15803d;stroke-width:"
    "2}"
    ".resume{stroke:#b91c1c;stroke-dasharray:4 3}";

/* ---- charts: outputs of one name share one; the rate comes last ---- */

static size_t list_charts(const tsr_history *h, tsr_chart charts[static CHARTS_MAX]) {
    size_t count = 0;
    for (int last = 0; last < 2; last++)
        for (size_t i = 0; i < h->series_count; i++) {
            const tsr_series *series = &h->series[i];
            size_t k = 0;
            if (!series->count || (series->kind == TSR_SERIES_RATE) != last) continue;
            while (k < count && (last || strcmp(charts[k].title, series->name) != 0)) k++;
            if (k == count) charts[count++] = (tsr_chart){.title = series->name, .history = h};
            if (charts[k].line_count < TSR_CHART_LINES_MAX)
                charts[k].lines[charts[k].line_count++] = series;
        }
    if (!count) charts[count++] = (tsr_chart){.title = "no steps yet", .history = h};
    return count;
}

static void write_svg(tsr_buffer *out, const tsr_chart *charts, size_t count, bool standalone) {
    tsr_buffer_printf(out,
                      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%zu\" "
                      "viewBox=\"0 0 %d %zu\">\n",
                      TSR_CHART_WIDTH, count * TSR_CHART_HEIGHT, TSR_CHART_WIDTH,
                      count * TSR_CHART_HEIGHT);
    if (standalone)
        tsr_buffer_printf(
            out, "<style>%s</style>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
            style);
    for (size_t i = 0; i < count; i++)
        tsr_chart_write(out, &charts[i], (unsigned)(i * TSR_CHART_HEIGHT));
    tsr_buffer_text(out, "</svg>\n");
}

/* ---- the report ---- */

static void write_summary(tsr_buffer *out, const tsr_history *h) {
    static const char *const kinds[] = {[TSR_SERIES_TRAIN] = "training",
                                        [TSR_SERIES_EVAL] = "evaluation",
                                        [TSR_SERIES_LR] = "learning rate",
                                        [TSR_SERIES_RATE] = "throughput"};
    tsr_buffer_text(out, "<table><tr><th>value</th><th>of</th><th>points</th><th>last</th>"
                         "<th>least</th><th>greatest</th></tr>\n");
    for (size_t i = 0; i < h->series_count; i++) {
        const tsr_series *series = &h->series[i];
        double low = INFINITY, high = -INFINITY, last = NAN;
        if (!series->count) continue;
        for (size_t k = 0; k < series->count; k++) {
            last = series->points[k].value;
            if (!isfinite(last)) continue;
            low = fmin(low, last);
            high = fmax(high, last);
        }
        tsr_buffer_text(out, "<tr><td>");
        tsr_chart_text(out, series->name);
        tsr_buffer_printf(out, "</td><td>%s</td><td>%zu</td>", kinds[series->kind], series->count);
        const double values[] = {last, low, high};
        for (size_t k = 0; k < 3; k++)
            if (isfinite(values[k]))
                tsr_buffer_printf(out, "<td>%.6g</td>", values[k]);
            else
                tsr_buffer_text(out, "<td>not finite</td>");
        tsr_buffer_text(out, "</tr>\n");
    }
    tsr_buffer_text(out, "</table>\n");
}

/* The newest events first. */
static void write_events(tsr_buffer *out, const tsr_history *h) {
    size_t shown = h->event_count < EVENTS_SHOWN ? h->event_count : EVENTS_SHOWN;
    if (!shown) return;
    tsr_buffer_text(out, "<h2>Saves and other events</h2>\n<table><tr><th>step</th><th>event</th>"
                         "<th>details</th></tr>\n");
    for (size_t i = 0; i < shown; i++) {
        const tsr_history_event *event = &h->events[h->event_count - 1 - i];
        tsr_buffer_printf(out, "<tr><td>%" PRIu64 "</td><td>", event->step);
        tsr_chart_text(out, event->what);
        tsr_buffer_text(out, "</td><td>");
        tsr_chart_text(out, event->text);
        tsr_buffer_text(out, "</td></tr>\n");
    }
    tsr_buffer_text(out, "</table>\n");
    if (shown < h->event_count)
        tsr_buffer_printf(out, "<p>and %zu older ones</p>\n", h->event_count - shown);
}

static void write_html(tsr_buffer *out, const tsr_history *h, const tsr_chart *charts, size_t count,
                       const char *path) {
    tsr_buffer_text(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>");
    tsr_chart_text(out, path);
    tsr_buffer_printf(out,
                      "</title>\n<style>body{font:14px system-ui,sans-serif;margin:24px;color:#222}"
                      "table{border-collapse:collapse}td,th{padding:2px 12px 2px 0;text-align:left}"
                      "%s</style>\n<h1>",
                      style);
    tsr_chart_text(out, path);
    tsr_buffer_printf(out,
                      "</h1>\n<p>%" PRIu64 " run%s, up to step %" PRIu64 "; %" PRIu64
                      " value%s %s not finite</p>\n",
                      h->run_count, TSR_PLURAL(h->run_count), h->last_step, h->nonfinite_count,
                      TSR_PLURAL_ARE(h->nonfinite_count));
    write_svg(out, charts, count, false);
    write_summary(out, h);
    write_events(out, h);
    tsr_buffer_text(out, "</html>\n");
}

/* ---- the file ---- */

static bool ends_in(const char *path, const char *ending) {
    size_t length = strlen(path), size = strlen(ending);
    return length > size && strcmp(path + length - size, ending) == 0;
}

static void tell(const tsr_ctx *ctx, const tsr_history *h, const char *path) {
    if (h->torn)
        tsr_log(ctx, TSR_LOG_NOTICE, "'%s': the last line is unfinished, and left out", path);
    if (h->unusable_count)
        tsr_log(ctx, TSR_LOG_WARNING,
                "'%s': %" PRIu64 " of %" PRIu64 " lines are not events, and left out", path,
                h->unusable_count, h->line_count);
    if (h->left_out)
        tsr_log(ctx, TSR_LOG_WARNING,
                "'%s' has more than %d series of values; '%.200s' and those after it are left out",
                path, TSR_HISTORY_SERIES_MAX, h->left_out);
    if (!h->line_count) tsr_log(ctx, TSR_LOG_NOTICE, "'%s' is empty", path);
}

tsr_result tsr_plot(tsr_ctx *ctx, const char *metrics_path, const char *out_path) {
    tsr_history history;
    tsr_chart charts[CHARTS_MAX];
    tsr_buffer out = {0};
    bool html = ends_in(out_path, ".html");
    if (!html && !ends_in(out_path, ".svg"))
        FAIL(ctx, TSR_USAGE, "plot: -o is '%s'; expected a name that ends in .svg or .html",
             out_path);
    TRY(ctx, tsr_history_read(ctx, metrics_path, &history));
    tell(ctx, &history, metrics_path);
    size_t count = list_charts(&history, charts);
    if (html)
        write_html(&out, &history, charts, count, metrics_path);
    else
        write_svg(&out, charts, count, true);
    tsr_result result = TSR_SUCCESS;
    if (out.failed) FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory for '%s'", out_path);
    TRY_GOTO(ctx, result, tsr_io_atomic_write(ctx, out_path, out.bytes, out.size_bytes));
done:
    tsr_buffer_finish(&out);
    tsr_history_finish(&history);
    return result;
}
