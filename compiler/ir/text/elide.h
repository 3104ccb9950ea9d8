/* SPDX-License-Identifier: Apache-2.0
 *
 * The text of a module with references in place of large constants.
 */
#ifndef TSR_COMPILER_IR_ELIDE_H
#define TSR_COMPILER_IR_ELIDE_H

#include "compiler/ir/mlir.h"
#include "runtime/base/buffer.h"

/* Constants with more elements than this are replaced by references; splats never are. */
enum { TSR_ELIDE_ELEMENTS = 4096 };

/* Prints the module with the location of every op. */
void tsr_print_whole(MlirModule module, tsr_buffer *out);

/* The same, but each large constant is printed as `dense_resource<sha256_…>`: the SHA-256 of its
 * elements as they are stored in the weights (row-major, little-endian, i1 as bytes). The elements
 * as text would take more than twice their size, and compressing that text would take much longer
 * than storing them. */
void tsr_print_referring(MlirModule module, tsr_buffer *out);

#endif
