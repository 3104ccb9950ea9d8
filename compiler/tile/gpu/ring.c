/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/tile/gpu/ring.h"

#include "compiler/shim/shim.h"

MlirValue tsr_gpu_view(tsr_tile_builder *b, MlirValue buffer, uint32_t rank, const int64_t *dims) {
    MlirType type = mlirValueGetType(buffer);
    int64_t pitch = 0;
    bool known = tsr_buffer_pitch(type, &pitch);
    TSR_ASSERT(known);
    MlirType wanted = tsr_buffer_make(mlirShapedTypeGetElementType(type), rank, dims, pitch);
    if (mlirTypeEqual(type, wanted)) return buffer;
    return tsr_build_value(&b->at, "tile.view", &buffer, 1, wanted, NULL);
}

MlirValue tsr_gpu_ring(tsr_tile_builder *b, int64_t stages, int64_t rows, int64_t columns,
                       tsr_dtype dtype) {
    int64_t dims[3] = {stages, rows, columns};
    MlirType type = tsr_shim_tile_shared_make(dims, tsr_tile_storage_type(b, dtype));
    tsr_attr attrs[] = {{"swizzle", tsr_attr_make_string(b->at.context, "xor")}, {0}};
    return tsr_build_value(&b->at, "tile.alloc_shared", NULL, 0, type, attrs);
}
