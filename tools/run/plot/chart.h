/* SPDX-License-Identifier: Apache-2.0
 *
 * A chart as SVG: lines over steps, with axes, ticks and a legend.
 */
#ifndef TSR_TOOLS_RUN_PLOT_CHART_H
#define TSR_TOOLS_RUN_PLOT_CHART_H

#include "runtime/base/buffer.h"
#include "tools/run/plot/history.h"

enum { TSR_CHART_WIDTH = 760, TSR_CHART_HEIGHT = 280, TSR_CHART_LINES_MAX = 4 };

typedef struct tsr_chart {
    const char *title;
    const tsr_series *lines[TSR_CHART_LINES_MAX]; /* borrowed */
    size_t line_count;
    const tsr_history *history; /* borrowed; its saves and resumes are marked */
} tsr_chart;

/* Appends a group of that size at (0, y), without a font. Values that are not finite are gaps; the
 * axis is logarithmic if all values are positive and span more than two decades. More points than
 * the chart has columns are drawn as the range of each column. */
void tsr_chart_write(tsr_buffer *out, const tsr_chart *chart, unsigned y);
/* Appends text with the characters escaped that XML and HTML reserve; bytes that are not UTF-8 and
 * control characters become '?'. */
void tsr_chart_text(tsr_buffer *out, const char *text);

#endif
