/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/graph/graph.h"
#include "compiler/graph/open/open.h"

tsr_result tsr_graph_lower(tsr_ctx *ctx, MlirModule module, tsr_diag_list *list,
                           const tsr_pass_options *options) {
    if (tsr_graph_has_range(module)) return tsr_graph_lower_open(ctx, module, list, options);
    return tsr_mlir_run_passes(ctx, module, list, TSR_GRAPH_PIPELINE, options);
}
