/* SPDX-License-Identifier: Apache-2.0
 *
 * The size of a dim that a model leaves open.
 */
#ifndef TSR_COMPILER_ONNX_BINDING_H
#define TSR_COMPILER_ONNX_BINDING_H

#include <stdint.h>

typedef struct tsr_dim_binding {
    const char *symbol; /* the dim's name, or "x:2" for dim 2 of an input x without a name there */
    uint64_t size;
} tsr_dim_binding;

#endif
