/* SPDX-License-Identifier: Apache-2.0
 *
 * Maps of buffers for the copy engine: arguments of the kernel after its own ones. The launcher
 * fills them in.
 */
#include "compiler/target/block/block.h"

#include <string.h>

enum { MAP_BYTES = 128, MAP_ALIGN = 64 };

static uint32_t element_kind(MlirType element, bool rounds) {
    if (mlirTypeIsABF16(element)) return TSR_FATBIN_BF16;
    if (mlirTypeIsAF16(element)) return TSR_FATBIN_F16;
    return rounds ? TSR_FATBIN_TF32 : TSR_FATBIN_F32;
}

uint32_t tsr_block_map_limit(const tsr_block *block) {
    return block->own_barriers ? TSR_FATBIN_MAPS_MAX : TSR_FATBIN_MAPS_FEW;
}

uint32_t tsr_block_map(tsr_emit *emit, MlirValue buffer, uint32_t rows, bool rounds) {
    tsr_block *block = emit->block;
    MlirType type = mlirValueGetType(buffer), element = mlirShapedTypeGetElementType(type);
    tsr_fatbin_map map = {
        .argument = (uint32_t)mlirBlockArgumentGetArgNumber(tsr_block_argument(buffer)),
        .element = element_kind(element, rounds),
        .rank = (uint32_t)mlirShapedTypeGetRank(type),
        .box_rows = rows,
        .box_columns = TSR_BLOCK_SWIZZLE_BYTES / (mlirTypeIsAF32(element) ? 4U : 2U),
        .swizzle_bytes = TSR_BLOCK_SWIZZLE_BYTES};
    for (uint32_t d = 0; d < TSR_FATBIN_MAP_RANK_MAX; d++)
        map.dims[d] = d < map.rank ? (uint64_t)mlirShapedTypeGetDimSize(type, map.rank - 1 - d) : 1;
    map.pitch = tsr_buffer_row(type) == (int64_t)map.dims[0] ? 0 : (uint64_t)tsr_buffer_row(type);
    for (uint32_t i = 0; i < block->map_count; i++)
        if (memcmp(&block->maps[i], &map, sizeof map) == 0) return i;
    if (block->map_count == tsr_block_map_limit(block)) {
        block->lacks_maps = true; /* the function is refused at the end */
        return 0;
    }
    block->maps[block->map_count] = map;
    return block->map_count++;
}

LLVMValueRef tsr_block_map_address(tsr_emit *emit, uint32_t map) {
    return LLVMGetParam(emit->function,
                        LLVMCountParams(emit->function) - tsr_block_map_limit(emit->block) + map);
}

void tsr_block_set_map(tsr_emit *emit, unsigned index) {
    LLVMTypeRef type = LLVMArrayType2(LLVMInt8TypeInContext(emit->llvm), MAP_BYTES);
    unsigned byval = LLVMGetEnumAttributeKindForName("byval", 5);
    unsigned align = LLVMGetEnumAttributeKindForName("align", 5);
    static const char constant[] = "nvvm.grid_constant";
    LLVMAddAttributeAtIndex(emit->function, index + 1,
                            LLVMCreateTypeAttribute(emit->llvm, byval, type));
    LLVMAddAttributeAtIndex(emit->function, index + 1,
                            LLVMCreateEnumAttribute(emit->llvm, align, MAP_ALIGN));
    LLVMAddAttributeAtIndex(
        emit->function, index + 1,
        LLVMCreateStringAttribute(emit->llvm, constant, sizeof constant - 1, "", 0));
}

void tsr_block_prefetch_maps(tsr_emit *emit, LLVMValueRef before) {
    LLVMPositionBuilderBefore(emit->builder, before);
    for (uint32_t i = 0; i < emit->block->map_count; i++) {
        LLVMValueRef map = tsr_block_map_address(emit, i);
        tsr_block_asm(emit, NULL, "prefetch.tensormap [$0];", "l,~{memory}", &map, 1);
    }
}
