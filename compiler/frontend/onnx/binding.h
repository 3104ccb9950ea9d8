/* SPDX-License-Identifier: Apache-2.0
 *
 * The sizes of a dim that a program or model leaves open.
 */
#ifndef TSR_COMPILER_ONNX_BINDING_H
#define TSR_COMPILER_ONNX_BINDING_H

#include <stddef.h>
#include <stdint.h>

typedef struct tsr_dim_binding {
    const char *symbol; /* the dim's name, or "x:2" for dim 2 of an input x without a name there */
    uint64_t size;      /* the first one */
    /* All of them, in ascending order; one, or a copy of the entry is made for each. Borrowed. */
    const int64_t *sizes;
    size_t size_count;
    uint64_t low; /* not 0: the dim stays open; calls give it sizes from `low` to `size` */
} tsr_dim_binding;

#endif
