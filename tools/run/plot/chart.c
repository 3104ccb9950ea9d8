/* SPDX-License-Identifier: Apache-2.0
 *
 * Outline: the range of both axes · ticks · lines · marks.
 */
#include "tools/run/plot/chart.h"

#include "runtime/base/io/json.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { LEFT = 76, RIGHT = 16, TOP = 34, BOTTOM = 34, TICKS = 5, TICKS_MAX = 20, MARKS_MAX = 400 };
enum {
    INNER_WIDTH = TSR_CHART_WIDTH - LEFT - RIGHT,
    INNER_HEIGHT = TSR_CHART_HEIGHT - TOP - BOTTOM
};

static const char *const colours[TSR_CHART_LINES_MAX] = {"#1f5fa8", "#c2410c", "#15803d",
                                                         "#7c3aed"};

typedef struct frame {
    double step_min, step_max, low, high;
    bool logarithmic, empty;
    unsigned y;
} frame;

void tsr_chart_text(tsr_buffer *out, const char *text) {
    bool utf8 = tsr_utf8_valid(text, strlen(text));
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '<')
            tsr_buffer_text(out, "&lt;");
        else if (c == '>')
            tsr_buffer_text(out, "&gt;");
        else if (c == '&')
            tsr_buffer_text(out, "&amp;");
        else if (c == '"')
            tsr_buffer_text(out, "&quot;");
        else if (c < 0x20 || c == 0x7f || (c > 0x7f && !utf8))
            tsr_buffer_text(out, "?");
        else
            tsr_buffer_append(out, text, 1);
    }
}

/* ---- axes ---- */

/* Both margins. At least 1e-9 of the values, which no two f32 differ by: in a range of a few units
 * in the last place, f64 cannot place ticks. */
static void widen(frame *f) {
    double magnitude = fmax(fabs(f->low), fabs(f->high)), span = fmin(f->high - f->low, DBL_MAX);
    double margin =
        span > 0 ? fmax(0.04 * span, fmax(1e-9 * magnitude, DBL_MIN)) : fmax(0.1 * magnitude, 1e-9);
    f->low = fmax(f->low - margin, -DBL_MAX);
    f->high = fmin(f->high + margin, DBL_MAX);
}

static frame measure(const tsr_chart *chart, unsigned y) {
    frame f = {
        .step_min = INFINITY, .step_max = -INFINITY, .low = INFINITY, .high = -INFINITY, .y = y};
    for (size_t i = 0; i < chart->line_count; i++)
        for (size_t k = 0; k < chart->lines[i]->count; k++) {
            const tsr_point *point = &chart->lines[i]->points[k];
            f.step_min = fmin(f.step_min, (double)point->step);
            f.step_max = fmax(f.step_max, (double)point->step);
            if (!isfinite(point->value)) continue;
            f.low = fmin(f.low, point->value);
            f.high = fmax(f.high, point->value);
        }
    f.empty = !(f.low <= f.high);
    if (f.empty) f.low = 0, f.high = 1;
    if (!(f.step_min <= f.step_max)) f.step_min = 0, f.step_max = 1;
    if (f.step_min == f.step_max) {
        if (f.step_max < 0x1p53)
            f.step_max += 1;
        else
            f.step_min -= 1;
    }
    f.logarithmic = f.low > 0 && f.high / f.low > 100;
    if (f.logarithmic) {
        f.low = log10(f.low);
        f.high = log10(f.high);
    }
    widen(&f);
    return f;
}

static double to_x(const frame *f, double step) {
    return LEFT + INNER_WIDTH * (step - f->step_min) / (f->step_max - f->step_min);
}

/* `at` is on the axis: a value, or its logarithm. Halves, because the span of f64 values can be
 * more than the greatest f64. */
static double axis_to_y(const frame *f, double at) {
    double part = (at / 2 - f->low / 2) / (f->high / 2 - f->low / 2);
    return f->y + TOP + INNER_HEIGHT * (1 - part);
}

static double to_y(const frame *f, double value) {
    return axis_to_y(f, f->logarithmic ? log10(value) : value);
}

/* The distance of ticks: 1, 2 or 5 times a power of ten. */
static double choose_distance(double span) {
    double rough = span / TICKS, power = pow(10, floor(log10(rough))), factor = rough / power;
    return power * (factor > 5 ? 10 : factor > 2 ? 5 : factor > 1 ? 2 : 1);
}

static void write_value_tick(tsr_buffer *out, const frame *f, double at) {
    double value = f->logarithmic ? pow(10, at) : at, y = axis_to_y(f, at);
    if (!isfinite(value) || (f->logarithmic && value == 0)) return; /* outside the range of f64 */
    tsr_buffer_printf(out,
                      "<path d=\"M%d %.1fh%d\" class=\"grid\"/>"
                      "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.6g</text>\n",
                      LEFT, y, INNER_WIDTH, LEFT - 8, y + 4, value);
}

static void write_step_tick(tsr_buffer *out, const frame *f, double at) {
    tsr_buffer_printf(out, "<text x=\"%.1f\" y=\"%u\" text-anchor=\"middle\">%.0f</text>\n",
                      to_x(f, at), f->y + TSR_CHART_HEIGHT - BOTTOM + 18, at);
}

/* Ticks at the multiples of `distance` from `low` to `high`, counted: a sum of distances may stand
 * still. */
static void write_ticks(tsr_buffer *out, const frame *f, double low, double high, double distance,
                        void (*write)(tsr_buffer *out, const frame *f, double at)) {
    double first = ceil(low / distance), last = floor(high / distance);
    for (int i = 0; i < TICKS_MAX && first + i <= last; i++) write(out, f, (first + i) * distance);
}

static void write_axes(tsr_buffer *out, const frame *f) {
    double span = fmin(f->high - f->low, DBL_MAX);
    double distance = f->logarithmic ? fmax(1, ceil(span / TICKS)) : choose_distance(span);
    write_ticks(out, f, f->low, f->high, distance, write_value_tick);
    distance = fmax(1, choose_distance(f->step_max - f->step_min));
    write_ticks(out, f, f->step_min, f->step_max, distance, write_step_tick);
    tsr_buffer_printf(out, "<rect x=\"%d\" y=\"%u\" width=\"%d\" height=\"%d\" class=\"frame\"/>\n",
                      LEFT, f->y + TOP, INNER_WIDTH, INNER_HEIGHT);
}

/* ---- lines ---- */

/* Points of one column of pixels, drawn as its first, least, greatest and last value. */
typedef struct column {
    int x; /* -1: none */
    double first, low, high, last;
} column;

static void flush(tsr_buffer *out, const frame *f, column *c, bool *inout_pen) {
    if (c->x < 0) return;
    const double values[] = {c->first, c->low, c->high, c->last};
    for (size_t i = 0; i < 4; i++) {
        if (i && values[i] == values[i - 1]) continue;
        tsr_buffer_printf(out, "%c%d %.1f", *inout_pen ? 'L' : 'M', c->x, to_y(f, values[i]));
        *inout_pen = true;
    }
    c->x = -1;
}

static void write_line(tsr_buffer *out, const frame *f, const tsr_series *line,
                       const char *colour) {
    column c = {.x = -1};
    bool pen = false;
    size_t finite = 0;
    tsr_buffer_printf(out, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\" d=\"", colour);
    for (size_t i = 0; i < line->count; i++) {
        const tsr_point *point = &line->points[i];
        if (!isfinite(point->value)) {
            flush(out, f, &c, &pen);
            pen = false;
            continue;
        }
        finite++;
        int x = (int)lround(to_x(f, (double)point->step));
        if (x != c.x) {
            flush(out, f, &c, &pen);
            c = (column){x, point->value, point->value, point->value, point->value};
        }
        c.low = fmin(c.low, point->value);
        c.high = fmax(c.high, point->value);
        c.last = point->value;
    }
    flush(out, f, &c, &pen);
    tsr_buffer_text(out, "\"/>\n");
    if (finite > INNER_WIDTH / 8) return; /* single points are seen where there are few */
    for (size_t i = 0; i < line->count; i++)
        if (isfinite(line->points[i].value))
            tsr_buffer_printf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.2\" fill=\"%s\"/>\n",
                              to_x(f, (double)line->points[i].step), to_y(f, line->points[i].value),
                              colour);
}

static void write_marks(tsr_buffer *out, const frame *f, const tsr_history *history) {
    size_t count = 0;
    for (size_t i = history->event_count; i-- > 0 && count < MARKS_MAX;) {
        const tsr_history_event *event = &history->events[i];
        bool save = strcmp(event->what, "save") == 0, resume = strcmp(event->what, "resume") == 0;
        double step = (double)event->step;
        if ((!save && !resume) || step < f->step_min || step > f->step_max) continue;
        count++;
        tsr_buffer_printf(out, "<path d=\"M%.1f %uv%d\" class=\"%s\"/>\n", to_x(f, step),
                          save ? f->y + TSR_CHART_HEIGHT - BOTTOM - 6 : f->y + TOP,
                          save ? 6 : INNER_HEIGHT, save ? "save" : "resume");
    }
}

void tsr_chart_write(tsr_buffer *out, const tsr_chart *chart, unsigned y) {
    static const char *const kinds[] = {[TSR_SERIES_TRAIN] = "training",
                                        [TSR_SERIES_EVAL] = "evaluation",
                                        [TSR_SERIES_LR] = "",
                                        [TSR_SERIES_RATE] = ""};
    frame f = measure(chart, y);
    tsr_buffer_printf(out, "<text x=\"%d\" y=\"%u\" class=\"title\">", LEFT, y + 20);
    tsr_chart_text(out, chart->title);
    tsr_buffer_text(out, "</text>\n");
    for (size_t i = 0; i < chart->line_count; i++)
        tsr_buffer_printf(out,
                          "<text x=\"%d\" y=\"%u\" text-anchor=\"end\" fill=\"%s\">%s</text>\n",
                          TSR_CHART_WIDTH - RIGHT - 90 * (int)(chart->line_count - 1 - i), y + 20,
                          colours[i], kinds[chart->lines[i]->kind]);
    write_axes(out, &f);
    write_marks(out, &f, chart->history);
    for (size_t i = 0; i < chart->line_count; i++) write_line(out, &f, chart->lines[i], colours[i]);
    if (f.empty)
        tsr_buffer_printf(out, "<text x=\"%d\" y=\"%u\" text-anchor=\"middle\">no values</text>\n",
                          TSR_CHART_WIDTH / 2, y + TSR_CHART_HEIGHT / 2);
}
