/* SPDX-License-Identifier: Apache-2.0
 *
 * What the commands that read a model share: sizes of open dims, files of parameters, diagnostics.
 */
#ifndef TSR_TOOLS_AOT_MODEL_H
#define TSR_TOOLS_AOT_MODEL_H

#include "compiler/compile.h"
#include "tools/common/options.h"

/* True for a name that ends in ".onnx". */
bool tsr_aot_is_onnx(const char *path);
/* Reads the texts "NAME=SIZE" or "NAME=SIZE,SIZE" of --dim. `out_dims` has room for
 * TSR_FLAG_LIST_MAX; the names are in the arena. TSR_USAGE for another form, or a name that is
 * given twice. */
TSR_RESULT tsr_aot_read_dims(tsr_ctx *ctx, const char *command, const tsr_flag_list *texts,
                             tsr_arena *arena, tsr_dim_binding *out_dims);
/* True if the text of a module names a file of parameters; false also if it cannot be read. */
bool tsr_aot_names_weights(tsr_ctx *ctx, const char *path);
/* Reads the value of --diagnostics: text (NULL) or json. */
TSR_RESULT tsr_aot_read_form(tsr_ctx *ctx, const char *command, const char *word, bool *out_json);
/* Prints a diagnostic to stderr. */
void tsr_aot_print_diag(const tsr_diag *diag, bool json);

#endif
