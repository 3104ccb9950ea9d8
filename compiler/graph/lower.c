/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/graph/graph.h"

#include <string.h>

tsr_result tsr_graph_lower(tsr_ctx *ctx, MlirModule module, tsr_diag_list *list,
                           const tsr_graph_options *options) {
    char name[64];
    for (const char *at = TSR_GRAPH_PIPELINE; *at;) {
        size_t length = strcspn(at, ",");
        TSR_ASSERT(length < sizeof name);
        memcpy(name, at, length);
        name[length] = '\0';
        TRY(ctx, tsr_mlir_run_pass(ctx, module, list, name));
        if (options && options->after_pass) options->after_pass(options->user, name, module);
        at += length + (at[length] == ',');
    }
    return TSR_SUCCESS;
}
