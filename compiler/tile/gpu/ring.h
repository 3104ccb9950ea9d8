/* SPDX-License-Identifier: Apache-2.0
 *
 * Helpers of the families of this folder: buffers viewed as matrices, and rings in shared memory.
 */
#ifndef TSR_COMPILER_TILE_GPU_RING_H
#define TSR_COMPILER_TILE_GPU_RING_H

#include "compiler/tile/build.h"

/* Views an argument of the kernel with these dims. The pitch stays. */
MlirValue tsr_gpu_view(tsr_tile_builder *b, MlirValue buffer, uint32_t rank, const int64_t *dims);
/* Allocates a ring of matrices in the layout that the matrix units read. */
MlirValue tsr_gpu_ring(tsr_tile_builder *b, int64_t stages, int64_t rows, int64_t columns,
                       tsr_dtype dtype);

#endif
