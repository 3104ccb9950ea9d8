/* SPDX-License-Identifier: Apache-2.0
 *
 * How an entry of a program is written as an ONNX model.
 */
#ifndef TSR_COMPILER_ONNX_EXPORTING_H
#define TSR_COMPILER_ONNX_EXPORTING_H

#include <stdbool.h>

/* Everything is borrowed. */
typedef struct tsr_onnx_export_options {
    const char *path;        /* of the model */
    const char *params_path; /* safetensors with every parameter that the entry reads */
    const char *entry;       /* of kind "infer"; NULL: the only one */
    bool is_external; /* parameters go to PATH.data beside the model, as they do above 2 GiB */
} tsr_onnx_export_options;

#endif
