/* SPDX-License-Identifier: Apache-2.0
 *
 * Conversions to and from the number formats of runtime/base/formats.def, in integer arithmetic:
 * every target makes the same bits. compiler/graph/NUMERICS.md is normative.
 */
#ifndef TSR_COMPILER_TILE_ELEMENTS_FORMAT_H
#define TSR_COMPILER_TILE_ELEMENTS_FORMAT_H

#include "compiler/tile/build.h"
#include "runtime/base/format.h"

typedef struct tsr_conversion {
    const tsr_format *format;
    tsr_rounding rounding;
    bool saturates;
    MlirValue random; /* TSR_ROUND_STOCHASTIC: 32 bits, i32 */
} tsr_conversion;

/* The codes, as i32, of values of f32. */
MlirValue tsr_format_encode(tsr_tile_builder *b, const tsr_conversion *how, MlirValue x,
                            uint32_t lanes);
/* The values, as f32, of i32 codes; bits above those of the format are ignored. */
MlirValue tsr_format_decode(tsr_tile_builder *b, const tsr_format *format, MlirValue codes,
                            uint32_t lanes);

#endif
