/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that a run writes: each a file of its own, and none that it reads.
 */
#ifndef TSR_TOOLS_RUN_OUTPUTS_H
#define TSR_TOOLS_RUN_OUTPUTS_H

#include "runtime/base/result.h"

#include <limits.h>

typedef struct tsr_run_output {
    const char *flag; /* that names it; of one flag several may be one file */
    const char *path; /* borrowed; NULL: not asked for */
    bool read_only;   /* what is read, and must not be written over */
} tsr_run_output;

/* TSR_USAGE where two of them, not both read only, are one file, by whatever spelling or link,
 * there already or not. What is no file (a terminal, a pipe, /dev/null) may be named twice. */
TSR_RESULT tsr_run_check_outputs(tsr_ctx *ctx, const tsr_run_output *outputs, size_t count);

#endif
