/* SPDX-License-Identifier: Apache-2.0
 *
 * A program in Python syntax as Graph IR. Each function with @function(entry=…) becomes an entry;
 * the calls in it are run while they are traced, so that its ops are those of all functions that it
 * calls. Ops have the range of their expression as location, and the calls that led there.
 */
#ifndef TSR_COMPILER_FRONTEND_LANGUAGE_IMPORT_H
#define TSR_COMPILER_FRONTEND_LANGUAGE_IMPORT_H

#include "compiler/ir/mlir.h"
#include "runtime/base/hash/hash.h"

/* True for a name that ends in ".py". */
bool tsr_language_is_program(const char *path);
typedef struct tsr_language_options {
    const char *path;
    bool strict_python; /* spellings that CPython refuses are errors, not warnings */
} tsr_language_options;

/* `list` is attached to the context and owns what the program is read into. TSR_COMPILE after
 * diagnostics; TSR_IO. */
TSR_RESULT tsr_language_import(tsr_ctx *ctx, const tsr_language_options *options,
                               MlirContext context, tsr_diag_list *list, MlirModule *out_module,
                               tsr_digest *out_digest);

#endif
