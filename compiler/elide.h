/* SPDX-License-Identifier: Apache-2.0
 *
 * The text of a module with references in place of large constants.
 */
#ifndef TSR_COMPILER_ELIDE_H
#define TSR_COMPILER_ELIDE_H

#include "compiler/mlir.h"
#include "runtime/base/buffer.h"

/* A constant of more elements is referred to; splats never are. */
enum { TSR_ELIDE_ELEMENTS = 4096 };

/* The module with the place of every op. */
void tsr_print_whole(MlirModule module, tsr_buffer *out);

/* The same, but `dense_resource<sha256_…>` where a large constant stands: the SHA-256 of its
 * elements as they are stored in the weights (row-major, little-endian, i1 as bytes). Elements take
 * more than twice their size as text, and much more time to compress than to store. */
void tsr_print_referring(MlirModule module, tsr_buffer *out);

#endif
