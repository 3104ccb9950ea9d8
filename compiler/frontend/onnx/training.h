/* SPDX-License-Identifier: Apache-2.0
 *
 * How an ONNX model is trained: the texts that the user gives.
 */
#ifndef TSR_COMPILER_ONNX_TRAINING_H
#define TSR_COMPILER_ONNX_TRAINING_H

#include <stddef.h>

/* Everything is borrowed. */
typedef struct tsr_onnx_training {
    const char *loss;              /* "cross_entropy(logits, labels)": docs/onnx.md */
    const char *optimizer;         /* "adamw(lr=1e-3)" */
    const char *const *freeze;     /* patterns (fnmatch) of parameters that are not trained */
    const char *const *data_types; /* "labels=i64[N]" */
    size_t freeze_count, data_type_count;
} tsr_onnx_training;

#endif
