/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/run/set.h"

#include <ctype.h>
#include <stdlib.h>

tsr_result tsr_run_set(tsr_ctx *ctx, const tsr_flag_pairs *pairs, tsr_model *model) {
    for (size_t i = 0; i < pairs->count; i++) {
        const tsr_flag_pair *pair = &pairs->pairs[i];
        char *end = NULL;
        double value = strtod(pair->value, &end);
        if (isspace((unsigned char)pair->value[0]) || end == pair->value || *end)
            FAIL(ctx, TSR_USAGE, "--set %s is '%s'; expected a number", pair->name, pair->value);
        tsr_result result = tsr_model_set_hyperparameter(ctx, model, pair->name, value);
        if (result.code) return tsr_error_prefix(ctx, result, "--set");
    }
    return TSR_SUCCESS;
}
