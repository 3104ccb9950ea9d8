/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera-run --check: reports whether a bundle runs here, and its requirements.
 */
#ifndef TSR_TOOLS_RUN_CHECK_H
#define TSR_TOOLS_RUN_CHECK_H

#include "tessera/tessera.h"

/* Prints to stdout, also if the bundle does not run, and returns the result of tsr_model_check.
 * JSON: schemas/check.schema.json. */
TSR_RESULT tsr_run_check(tsr_ctx *ctx, const char *path, const tsr_model_options *options,
                         bool json);

#endif
