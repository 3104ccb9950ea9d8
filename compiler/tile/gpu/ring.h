/* SPDX-License-Identifier: Apache-2.0
 *
 * What the families of this folder share: buffers as matrices, and rings of shared memory.
 */
#ifndef TSR_COMPILER_TILE_GPU_RING_H
#define TSR_COMPILER_TILE_GPU_RING_H

#include "compiler/tile/build.h"

/* An argument of the kernel with these dims; one with a pitch has as long rows. */
MlirValue tsr_gpu_view(tsr_tile_builder *b, MlirValue buffer, uint32_t rank, const int64_t *dims);
/* Of matrices as the matrix units read them. */
MlirValue tsr_gpu_ring(tsr_tile_builder *b, int64_t stages, int64_t rows, int64_t columns,
                       tsr_dtype dtype);

#endif
