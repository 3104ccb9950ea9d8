/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to this folder: the state of one import.
 */
#ifndef TSR_COMPILER_STABLEHLO_IMPORTER_H
#define TSR_COMPILER_STABLEHLO_IMPORTER_H

#include "compiler/frontend/stablehlo/import.h"
#include "compiler/frontend/stablehlo/rules.h"
#include "compiler/ir/names.h"
#include "compiler/ir/value_map.h"

enum {
    TSR_HLO_DEPTH_MAX = 64, /* regions and calls in one another */
    TSR_HLO_BYTES_MAX = 1 << 30,
    TSR_HLO_OPS_MAX = 1 << 20, /* ops that are imported, with those of unrolled loops each time */
};

typedef struct tsr_hlo_importer {
    tsr_ctx *ctx;
    tsr_diag_list *diags;
    const tsr_hlo_options *options;
    MlirContext mlir;
    MlirModule source, module; /* of StableHLO; of Graph IR */
    tsr_builder builder;
    tsr_arena arena;
    tsr_value_map map; /* values of StableHLO to numbers of `values` */
    MlirValue *values;
    size_t value_count, value_capacity;
    tsr_names called; /* functions that are called, numbers of `functions` */
    MlirOperation *functions;
    size_t function_count, function_capacity;
    size_t op_count, depth;
    bool lifted;        /* scalars stand for tensors */
    tsr_result failure; /* of the options; its error is in the context */
} tsr_hlo_importer;

/* Appends to the tsr_buffer `user`: a callback of MLIR's printers. */
void tsr_hlo_append(MlirStringRef text, void *user);
/* The function with this name is needed: it is imported after the current one. Null: absent. */
MlirOperation tsr_hlo_need_function(tsr_hlo_importer *im, const char *symbol);

#endif
