/* SPDX-License-Identifier: Apache-2.0
 *
 * The text of the progress line, shortened to the width of a terminal.
 */
#ifndef TSR_TOOLS_RUN_PROGRESS_H
#define TSR_TOOLS_RUN_PROGRESS_H

#include "tessera/report.h"

enum { TSR_PROGRESS_BYTES_MAX = 2048 };

/* Writes "step 7/500  loss 0.25  31250 samples/s  ETA 12 s". `columns`: the most columns that the
 * text may take; 0: no limit. Parts that do not fit are left out: first the outputs after the
 * first one, then the time left, the first output, the rate, the last step. Characters of East
 * Asian scripts count as two columns. `out_text` has TSR_PROGRESS_BYTES_MAX bytes. */
void tsr_progress_format(const tsr_step_report *step, unsigned columns, char *out_text);
/* Returns the number of columns of the terminal `fd` now, so that a resized window counts from the
 * next line on; 80 if the terminal does not know. */
unsigned tsr_progress_columns(int fd);

#endif
