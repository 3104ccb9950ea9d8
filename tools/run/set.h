/* SPDX-License-Identifier: Apache-2.0
 *
 * --set: values of hyper-parameters.
 */
#ifndef TSR_TOOLS_RUN_SET_H
#define TSR_TOOLS_RUN_SET_H

#include "tessera/tessera.h"
#include "tools/common/options.h"

/* Sets each hyper-parameter in the model; TSR_USAGE for a text that is not a number. */
TSR_RESULT tsr_run_set(tsr_ctx *ctx, const tsr_flag_pairs *pairs, tsr_model *model);

#endif
