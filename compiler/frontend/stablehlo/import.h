/* SPDX-License-Identifier: Apache-2.0
 *
 * Imports a module of StableHLO as Graph IR: its function `main`, or its only public one, becomes
 * an entry. Without carried values that is an infer entry, whose arguments are inputs. With them it
 * is a train entry: the carried inputs are tensors of the state, which the outputs beside them
 * replace after the step, and the other inputs are bound to data sets.
 */
#ifndef TSR_COMPILER_STABLEHLO_IMPORT_H
#define TSR_COMPILER_STABLEHLO_IMPORT_H

#include "compiler/frontend/stablehlo/carry.h"
#include "compiler/ir/mlir.h"
#include "runtime/base/hash/hash.h"

typedef struct tsr_hlo_options {
    const char *path;         /* of the module's text */
    const char *const *carry; /* texts of --carry; borrowed */
    size_t carry_count;
} tsr_hlo_options;

/* True for a name that ends in ".stablehlo.mlir" or ".stablehlo". */
bool tsr_hlo_is_program(const char *path);

/* `list` is attached to the context and owns the text. TSR_COMPILE after diagnostics; TSR_IO;
 * TSR_USAGE for a text of --carry that does not fit the entry. */
TSR_RESULT tsr_hlo_import(tsr_ctx *ctx, MlirContext context, tsr_diag_list *list,
                          const tsr_hlo_options *options, MlirModule *out_module,
                          tsr_digest *out_digest);

#endif
