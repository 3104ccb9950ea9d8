/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera-run --check: whether a bundle runs here, and what it needs.
 */
#ifndef TSR_TOOLS_RUN_CHECK_H
#define TSR_TOOLS_RUN_CHECK_H

#include "loader/tessera.h"

/* Prints to stdout, also when the bundle does not run, and returns what tsr_model_check does. JSON:
 * schemas/check.schema.json. */
TSR_RESULT tsr_run_check(tsr_ctx *ctx, const char *path, const tsr_model_options *options,
                         bool json);

#endif
