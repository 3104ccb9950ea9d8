/* SPDX-License-Identifier: Apache-2.0
 *
 * The signature of a kernel: two groups with the same signature, numerics and target get the same
 * code from the same sizes. It does not depend on the names of kernels and values.
 */
#ifndef TSR_COMPILER_TILE_SIGNATURE_H
#define TSR_COMPILER_TILE_SIGNATURE_H

#include "compiler/ir/mlir.h"
#include "runtime/base/buffer.h"

/* Appends "matmul_add_gelu 70x60xf32,60x130xf32,130xf32->70x130xf32 0123456789abcdef": the ops, the
 * types, and the first 16 digits of a SHA-256 of the ops with their attributes. */
void tsr_signature_append(MlirOperation group, tsr_buffer *out);

#endif
