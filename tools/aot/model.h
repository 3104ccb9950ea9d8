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
/* Checks the options' source by its name: TSR_USAGE for a bundle, and for flags that do not apply
 * to such a source. */
TSR_RESULT tsr_aot_check_source(tsr_ctx *ctx, const char *command,
                                const tsr_compile_options *options);
/* Reads the texts "NAME=SIZE" or "NAME=SIZE,SIZE", or "NAME=LOW..HIGH" of --dim. `out_dims` has
 * room for TSR_FLAG_LIST_MAX; the names are in the arena. TSR_USAGE for another form, or a name
 * that is given twice. */
TSR_RESULT tsr_aot_read_dims(tsr_ctx *ctx, const char *command, const tsr_flag_list *texts,
                             tsr_arena *arena, tsr_dim_binding *out_dims);
/* The flags that train an ONNX model. */
typedef struct tsr_aot_training {
    const char *loss, *optimizer; /* NULL: not given */
    tsr_flag_list freeze, data_types;
    tsr_onnx_training options; /* of the compiler, which borrow the texts */
} tsr_aot_training;
/* Sets *out_options to `training->options`, or to NULL without --train. TSR_USAGE if one flag needs
 * another, or the source is no ONNX model; --freeze may belong to links. */
TSR_RESULT tsr_aot_read_training(tsr_ctx *ctx, const char *command, tsr_aot_training *training,
                                 const char *source, const tsr_onnx_training **out_options);
/* The flags that link files. */
typedef struct tsr_aot_links {
    tsr_flag_pairs files;
    tsr_flag_list ops;
} tsr_aot_links;
/* Sets the links of the compiler's options, in the arena. TSR_USAGE for an op in another form, or
 * without a use. */
TSR_RESULT tsr_aot_read_links(tsr_ctx *ctx, const char *command, const tsr_aot_links *links,
                              const tsr_aot_training *training, tsr_arena *arena,
                              tsr_compile_options *options);
bool tsr_aot_links_model(const tsr_aot_links *links); /* an ONNX model */
/* True if the text of a module names a file of parameters; false also if it cannot be read. */
bool tsr_aot_names_weights(tsr_ctx *ctx, const char *path);
/* Reads the value of --diagnostics: text (NULL) or json. */
TSR_RESULT tsr_aot_read_form(tsr_ctx *ctx, const char *command, const char *word, bool *out_json);
/* Prints a diagnostic to stderr. */
void tsr_aot_print_diag(const tsr_diag *diag, bool json);

#endif
