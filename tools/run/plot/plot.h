/* SPDX-License-Identifier: Apache-2.0
 *
 * Draws a metrics file.
 */
#ifndef TSR_TOOLS_RUN_PLOT_PLOT_H
#define TSR_TOOLS_RUN_PLOT_PLOT_H

#include "runtime/base/result.h"

/* Reads the file of --metrics and writes charts of it: `out_path` ends in .svg, or in .html for a
 * report that also lists the events. The file needs no other file, and no script. It is written
 * whole or not at all. Logs what was left out of the metrics. TSR_USAGE for another ending,
 * TSR_DATA, TSR_IO. */
TSR_RESULT tsr_plot(tsr_ctx *ctx, const char *metrics_path, const char *out_path);

#endif
